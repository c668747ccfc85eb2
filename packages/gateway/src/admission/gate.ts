/**
 * The gate admits every notification. An accepted one is decided and on disk before the caller is answered
 * (acceptance.ts); a refused one leaves nothing behind, neither in the store nor in the limits. The same gate decides
 * again (redecision.ts) after a changed preference, a freed tenant limit, a closed digest or a redrive. evaluate.ts
 * holds the order of the checks.
 */

import type { Channel } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, LimitState, Random, Store } from '../ports.ts'
import type { Contents, Gate, Ledger, RecipientLimiter, Scheduler } from '../stages.ts'
import { createAcceptance } from './acceptance.ts'
import { createCancellation } from './cancellation.ts'
import { createDigestCloser } from './digests/digest-closer.ts'
import { createDigestPlanner } from './digests/digest-plan.ts'
import { createOpenDigests } from './digests/open-digests.ts'
import { createEvaluator } from './evaluate.ts'
import { createMovingUp, type MovingUp } from './moving-up.ts'
import type { ForbiddenHours } from './quiet-hours.ts'
import type { RecipientCache } from './recipient-cache.ts'
import { createRedecision, type Redecision } from './redecision.ts'
import { createRedrive } from './redrive.ts'
import type { ReleaseHolds } from './release-holds.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'
import { createUsage } from './usage.ts'

export interface GateOptions {
  readonly store: Store
  readonly ledger: Ledger
  readonly state: LimitState
  readonly limiter: RecipientLimiter
  readonly recipients: RecipientCache
  readonly policy: Policy
  readonly forbiddenHours: ForbiddenHours
  readonly scheduler: Scheduler
  readonly throttle: TenantThrottle
  readonly contents: Contents
  readonly releaseHolds: ReleaseHolds
  /** True where a pool serves the channel. */
  readonly serves: (channel: Channel) => boolean
  /** Channels that need no recipient address: the account holds the destination. */
  readonly selfAddressed: ReadonlySet<Channel>
  readonly clock: Clock
  readonly random: Random
  readonly onError: (what: string, error: unknown) => void
}

export interface Admitting extends Gate {
  readonly movingUp: MovingUp
  /** Decides a digest item anew whose digest is not open: see `Redecision`. */
  readonly adopt: Redecision['adopt']
}

export function createGate(options: GateOptions): Admitting {
  const { store, random, throttle } = options
  const digests = createOpenDigests({ store, random })
  const evaluator = createEvaluator({ ...options, digests })
  const planner = createDigestPlanner({ ...options, evaluator })
  const closer = createDigestCloser({ ...options, planner, digests, evaluator })
  const review: Redecision['review'] = (waiting) => redecision.review(waiting)
  const movingUp = createMovingUp({ ...options, evaluator, closer, review })
  const acceptance = createAcceptance({ ...options, digests, evaluator, movingUp })
  const { bringBack, ...redecision } = createRedecision({ ...options, evaluator, acceptance, movingUp })

  return {
    movingUp,
    admit: acceptance.admit,
    cancel: createCancellation(options),
    ...redecision,
    redrive: createRedrive({ ...options, bringBack }),
    closeDigest: closer.close,
    usage: createUsage(options),
    placeOf: throttle.placeOf,

    async preview(caller, draft) {
      const [each] = await acceptance.candidatesOf(caller, [draft])
      await throttle.preview(each!)
      await evaluator.decide([each!], { dry: true })
      const { patch, decision } = each!.verdict!
      return {
        draft: patch?.channel === undefined ? draft : { ...draft, channel: patch.channel },
        decision,
      }
    },
  }
}

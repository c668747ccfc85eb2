/**
 * Everything that wants to be sent passes here. What is accepted is decided and on disk before the caller is told
 * (acceptance.ts); what is refused leaves nothing behind, neither on record nor in the limits. The same gate decides
 * again whatever changes its prospects later (redecision.ts): a preference, a platform limit that frees, a digest that
 * closes, a redrive. How it is decided stands in decider.ts.
 */
import type { Agenda, Book, Contents, Gate, Ledger } from '../doors.ts'
import type { Channel } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, LimitState, Random, Store } from '../ports.ts'
import { createAcceptance } from './acceptance.ts'
import { createCancellation } from './cancellation.ts'
import { createDecider } from './decider.ts'
import { createDigestCloser } from './digest-closer.ts'
import { createDigestPlanner } from './digest-plan.ts'
import type { GiveBack } from './giving-back.ts'
import type { Hours } from './hours.ts'
import { createMovingUp, type MovingUp } from './moving-up.ts'
import { createOpenDigests } from './open-digests.ts'
import type { PeopleCache } from './people.ts'
import type { PlatformLine } from './platform.ts'
import { createRedecision, type Redecision } from './redecision.ts'
import { createRedrive } from './redrive.ts'
import { createUsage } from './usage.ts'

export interface GateOptions {
  readonly store: Store
  readonly ledger: Ledger
  readonly state: LimitState
  readonly book: Book
  readonly people: PeopleCache
  readonly policy: Policy
  readonly hours: Hours
  readonly agenda: Agenda
  readonly platform: PlatformLine
  readonly contents: Contents
  readonly giveBack: GiveBack
  /** Whether a pool serves the channel. */
  readonly serves: (channel: Channel) => boolean
  /** Channels on which the accounts themselves say where to. */
  readonly selfAddressed: ReadonlySet<Channel>
  readonly clock: Clock
  readonly random: Random
  readonly onTrouble: (what: string, error: unknown) => void
}

export interface Admitting extends Gate {
  readonly movingUp: MovingUp
  /** An item whose digest is not open: see `Redecision`. */
  readonly adopt: Redecision['adopt']
}

export function createGate(options: GateOptions): Admitting {
  const { store, random, platform } = options
  const digests = createOpenDigests({ store, random })
  const decider = createDecider({ ...options, digests })
  const planner = createDigestPlanner({ ...options, decider })
  const closer = createDigestCloser({ ...options, planner, digests, decider })
  const review: Redecision['review'] = (waiting) => redecision.review(waiting)
  const movingUp = createMovingUp({ ...options, decider, closer, review })
  const acceptance = createAcceptance({ ...options, digests, decider, movingUp })
  const { bringBack, ...redecision } = createRedecision({ ...options, decider, acceptance, movingUp })

  return {
    movingUp,
    admit: acceptance.admit,
    cancel: createCancellation(options),
    ...redecision,
    redrive: createRedrive({ ...options, bringBack }),
    closeDigest: closer.close,
    usage: createUsage(options),
    placeOf: platform.placeOf,

    async preview(caller, draft) {
      const [each] = await acceptance.casesOf(caller, [draft])
      await platform.preview(each!)
      await decider.decide([each!], { dry: true })
      const { patch, decision } = each!.verdict!
      return {
        draft: patch?.channel === undefined ? draft : { ...draft, channel: patch.channel },
        decision,
      }
    },
  }
}

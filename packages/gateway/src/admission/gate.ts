/**
 * The gate admits every notification. An accepted one is decided and on disk before the caller is answered (admit.ts); a
 * refused one leaves nothing behind, neither in the store nor in the limits. The same gate decides again (redecision.ts)
 * after a changed preference, a freed tenant limit, a closed digest or a redrive. evaluate.ts holds the order of the
 * checks.
 */

import type { Channel } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Notifier } from '../ports/fleet.ts'
import type { Clock, LimitState, Random, Store } from '../ports.ts'
import type { Contents, Gate, Ledger, RecipientLimiter, Scheduler } from '../stages.ts'
import { createAdmission } from './admit-undecided.ts'
import { createCancellation } from './cancellation.ts'
import { createCandidateFactory } from './candidates.ts'
import type { DecisionWindow } from './decision-window.ts'
import { createDigestCloser } from './digests/digest-closer.ts'
import { createDigestPlanner } from './digests/digest-plan.ts'
import { createOpenDigests, type OpenDigests } from './digests/open-digests.ts'
import { createEvaluator } from './evaluate.ts'
import type { PauseNewcomers } from './freed-slots.ts'
import { createHandover } from './handover.ts'
import { createMovingUp, type MovingUp } from './moving-up.ts'
import type { Promotion } from './promotion.ts'
import type { ForbiddenHours } from './quiet-hours.ts'
import type { RecipientCache } from './recipient-cache.ts'
import { createRedecision, type Redecision } from './redecision.ts'
import { createRedrive } from './redrive.ts'
import type { ReleaseHolds } from './release-holds.ts'
import { createScheduleCommitted } from './schedule-committed.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'
import type { Undecided, UndecidedOptions } from './undecided-notifications.ts'
import { createUsage } from './usage.ts'

export interface GateOptions extends Pick<UndecidedOptions, 'keepsLimits'> {
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
  readonly pauseNewcomers: PauseNewcomers
  /** Bounds what is decided at once. @defaultValue nothing does */
  readonly window?: DecisionWindow | undefined
  /** True where a pool serves the channel. */
  readonly serves: (channel: Channel) => boolean
  /** Channels that need no recipient address: the account holds the destination. */
  readonly selfAddressed: ReadonlySet<Channel>
  readonly notifier: Pick<Notifier, 'tell'>
  readonly clock: Clock
  readonly random: Random
  readonly onError: (what: string, error: unknown) => void
}

export interface AdmissionGate extends Gate {
  readonly movingUp: Pick<MovingUp, 'freed' | 'moveUpAfter' | 'isThrough' | 'stop'>
  readonly undecided: Pick<Undecided, 'stop'>
  readonly promotion: Pick<Promotion, 'stop'>
  readonly digests: Pick<OpenDigests, 'forgetRecipient'>
  /** Starts the move of all who were promised an instant under another policy, or by a process that was killed. */
  startMovingUp(): void
  /** Another policy is in force, or a process was killed: starts that move again. */
  walkAgain: MovingUp['walkAgain']
  /** Evaluates a waiting notification again; a released one is reserved again in any case. */
  readonly review: Redecision['review']
  /** Decides a digest item anew whose digest is not open: see `Redecision`. */
  readonly adopt: Redecision['adopt']
}

export function createGate(options: GateOptions): AdmissionGate {
  const { store, ledger, state, limiter, recipients, policy, forbiddenHours, scheduler, throttle } = options
  const { contents, releaseHolds, pauseNewcomers, window, serves, selfAddressed } = options
  const { keepsLimits, notifier, clock, random, onError } = options

  // Decide.
  const digests = createOpenDigests({ store, random })
  const candidatesOf = createCandidateFactory({ recipients, policy, clock, random })
  const shared = { policy, limiter, state, store, forbiddenHours, clock }
  const evaluator = createEvaluator({ ...shared, digests, selfAddressed })

  // Follow a commit.
  const schedule = createScheduleCommitted({ scheduler, contents, onError })
  const planner = createDigestPlanner({ ...shared, recipients, contents, evaluator, random })
  const closer = createDigestCloser({
    planner,
    ledger,
    scheduler,
    digests,
    schedule,
    releaseHolds,
    clock,
    onError,
  })
  const movingUp = createMovingUp({
    state,
    limiter,
    store,
    policy,
    ledger,
    recipients,
    scheduler,
    evaluator,
    closer,
    clock,
    onError,
  })
  const handover = createHandover({ schedule, scheduler, digests, recipients, state, movingUp, onError })

  // Admit, and decide again.
  const asked = { policy, keepsLimits, clock, onError }
  const deciding = { store, ledger, throttle, evaluator, digests, recipients, handover, ...asked }
  const { bringBack, undecided, promotion, ...redecision } = createRedecision({
    ...deciding,
    limiter,
    scheduler,
    releaseHolds,
    state,
    forbiddenHours,
    movingUp,
    notifier,
  })

  return {
    ...createAdmission({ ...deciding, candidatesOf, window, waiting: undecided }),
    ...redecision,
    undecided,
    promote: promotion.promote,
    promotion,
    digests,
    movingUp,
    startMovingUp: () => movingUp.start(redecision.review),
    walkAgain: movingUp.walkAgain,
    cancel: createCancellation({ store, ledger, scheduler, releaseHolds, pauseNewcomers, clock }),
    redrive: createRedrive({ store, ledger, bringBack, serves, onError }),
    closeDigest: closer.close,
    usage: createUsage({ state, policy, store, clock }),
    placeOf: throttle.placeOf,
  }
}

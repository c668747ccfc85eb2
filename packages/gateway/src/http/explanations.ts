/** Gathers the facts of an explanation (explanation.ts): accounts, places of the limit, and the time. */
import { waitingReason } from '../backlog-cell.ts'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, HoldRecord, Store } from '../ports.ts'
import type { OperatorHolds, PoolReport } from '../stages.ts'
import { isoOrNull } from './answer.ts'
import { type Explanation, explain } from './explanation.ts'
import { type Identity, mayRead } from './identity.ts'
import { limitHolders } from './limit-holders.ts'
import { aheadOf, inWallTime, poolsInWallTime } from './wall-time.ts'

export interface ExplanationsOptions {
  readonly store: Pick<Store, 'admissions'>
  readonly policy: Pick<Policy, 'rulesFor' | 'longestWindowMs'>
  readonly pools: () => readonly PoolReport[]
  readonly holds: Pick<OperatorHolds, 'list'>
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
}

export function createExplanations({ store, policy, pools, holds, clock }: ExplanationsOptions) {
  return {
    /** The explanation of a notification as it is answered; `current` has its state in memory. */
    async of(current: Notification, caller: Identity) {
      const aheadMs = aheadOf(clock)
      const isHeld = current.dueAt > clock.now() && waitingReason(current) === 'recipient_limit'
      const heldBy = isHeld ? await limitHolders({ store, policy }, current, clock.now()) : []
      const hold = longestOf(holds.list(), current)
      const explanation = explain({
        ...(hold === undefined ? {} : { hold }),
        notification: inWallTime(current, aheadMs),
        accounts: poolsInWallTime(
          pools().filter(({ channel }) => channel === current.channel),
          aheadMs,
        ).flatMap(({ accounts }) => accounts),
        heldBy: heldBy.map((each) => ({ ...each, at: each.at + aheadMs })),
        now: clock.now() + aheadMs,
        namesAccounts: mayRead(caller),
      })
      return explanationAnswer(explanation)
    },
  }
}

/** The hold that stops a notification longest. */
function longestOf(
  holds: readonly HoldRecord[],
  { tenant, channel, category }: Notification,
): HoldRecord | undefined {
  return holds
    .filter(
      (hold) =>
        hold.account === undefined &&
        (hold.tenant ?? tenant) === tenant &&
        (hold.channel ?? channel) === channel &&
        (hold.category ?? category) === category,
    )
    .sort((a, b) => b.until - a.until)[0]
}

function explanationAnswer({ until, heldBy, accounts, ...rest }: Explanation) {
  return {
    ...rest,
    ...(until === undefined ? {} : { until: isoOrNull(until) ?? undefined }),
    ...(heldBy === undefined ? {} : { heldBy: heldBy.map((each) => ({ ...each, at: isoOrNull(each.at) })) }),
    ...(accounts === undefined
      ? {}
      : {
          accounts: {
            ...accounts,
            firstBackAt: isoOrNull(accounts.firstBackAt),
            ...(accounts.named === undefined
              ? {}
              : { named: accounts.named.map((one) => ({ ...one, outUntil: isoOrNull(one.outUntil) })) }),
          },
        }),
  }
}

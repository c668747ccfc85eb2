/** Gathers the facts of an explanation (explanation.ts): accounts, the places of a limit, and the time. */
import { waitingReason } from '../backlog-cell.ts'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, Countable, HoldRecord, Store } from '../ports.ts'
import type { OperatorHolds, PoolReport } from '../stages.ts'
import { isoOrNull } from './answer.ts'
import { type Explanation, explain, type Holder } from './explanation.ts'
import { type Identity, mayRead } from './identity.ts'
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

/** Notifications that one answer names at most. */
const holdersMax = 5
/** The newest admissions of the recipient that are examined. */
const admissionsMax = 200

/**
 * Finds the notifications that hold the places of a limit for which another one waits: those of the same recipient
 * whose departures or reservations count on the same stream. The store answers by its index of recipients.
 */
async function limitHolders(
  { store, policy }: Pick<ExplanationsOptions, 'store' | 'policy'>,
  notification: Notification,
  now: number,
): Promise<readonly Holder[]> {
  const { tenant, to, decision, dueAt, id } = notification
  const { limit } = decision
  if (limit === undefined) return []
  const streamsOf = (countable: Countable): readonly string[] =>
    policy
      .rulesFor(countable)
      .filter(({ subject }) => subject.recipient !== undefined)
      .flatMap(({ rules }) => rules)
      .filter(({ name }) => name === limit)
      .map(({ stream }) => stream)
  const streams = new Set(streamsOf(notification))
  if (streams.size === 0) return []
  const since = now - policy.longestWindowMs
  const met = await store.admissions({ tenant, recipient: to.id, since, limit: admissionsMax })
  return met
    .filter((each) => each.id !== id && each.undecided !== true)
    .map((each) => ({ notificationId: each.id, at: each.firedAt ?? each.dueAt, streams: streamsOf(each) }))
    .filter((each) => each.at >= since && each.at < dueAt && each.streams.some((one) => streams.has(one)))
    .sort((a, b) => b.at - a.at)
    .slice(0, holdersMax)
    .map(({ notificationId, at }) => ({ notificationId, at }))
    .reverse()
}

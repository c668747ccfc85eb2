/**
 * Finds calls that were made too late. For each one it searches, by trying, the earliest instant at which neither what the
 * recipient got nor what the accounts carried before stood in its way, nor an instant that another one had been promised
 * earlier; a call much later than that had no reason to wait. It looks only where nothing disturbs the run, and where no place became free meanwhile.
 */
import type { Notification } from '../../src/model.ts'
import type { Change } from '../../src/ports.ts'
import type { Exchange } from './client.ts'
import { actorsOf, type Watched } from './oracle.ts'
import type { Calm } from './oracle-calm.ts'
import type { WatchedRecord } from './oracle-record.ts'
import { type LimitRule, limitsOf, second } from './settings.ts'
import { rightMs } from './sim-fleet-record.ts'
import type { Call } from './sim-provider.ts'

/** Windows are kept some 20 ms longer than written. */
const marginMs = 25
/** 20 ms, and the usual delays of the calls of ports on the way: some ten of at most 2 ms each. */
export const lateMsMax = 40

export interface WatchedLateness {
  /** Looks at all calls, when the record is complete. */
  check(told: ReadonlyMap<string, Exchange>): void
  /** Calls that were looked at. */
  looked(): number
}

/** The share of its rate that an account has learned: each 429 takes a fifth, and a hundredth a second comes back behind its block. */
function learnedShare(calls: readonly Call[], account: string, at: number): number {
  let [share, since] = [1, Number.NEGATIVE_INFINITY]
  const risen = (to: number): number => Math.min(1, share + Math.max(0, to - since) / (100 * second))
  for (const call of calls) {
    if (call.account !== account || call.fate !== 'limit' || call.at >= at) continue
    const { answeredAt = call.at, retryAfterMs = 0 } = call
    share = 0.8 * risen(call.at)
    since = answeredAt + retryAfterMs
  }
  return risen(at)
}

/**
 * Tests if the accounts had nearly nothing to do, so that no pacing and no window held up a call of this span, or another one
 * that holds an instant of its recipient.
 */
export function areIdle(
  { settings, service }: Pick<Watched, 'settings' | 'service'>,
  from: number,
  to: number,
): boolean {
  return settings.accounts.every(({ id, windows }) =>
    windows.every(({ max, windowMs }) => {
      // A full window is followed by one in which calls are paced.
      const since = from - 2 * windowMs - marginMs
      const within = service.calls.filter(({ at }) => at > since && at < to)
      return [id, `sms-${id}`].every(
        (account) =>
          within.filter((each) => each.account === account).length <
          (max / 2) * learnedShare(service.calls, account, from),
      )
    }),
  )
}

export function watchLateness(
  { world, settings, client, service, record }: Watched,
  { rows }: WatchedRecord,
  calm: Calm,
  lateMs = lateMsMax,
): WatchedLateness {
  let looked = 0
  /** The instants that were promised to each notification, with those at which they were written, oldest first. */
  const promises = new Map<string, { readonly from: number; readonly dueAt: number }[]>()
  /** The instants at which digests of each tenant were put off: they gave up a place in the limits then, and took a later one. */
  const putOff = new Map<string, number[]>()
  record.observers.add(({ method, args }) => {
    if (method !== 'commit') return
    const { accept = [], moves = [], digests = [] } = args[0] as Change
    for (const each of digests)
      if (each.kind === 'postpone') {
        const { tenant } = each.digest
        putOff.set(tenant, [...(putOff.get(tenant) ?? []), world.now()])
      }
    for (const { id, status, dueAt } of [...accept, ...moves.map(({ after }) => after)]) {
      const own = promises.get(id) ?? []
      if (status === 'scheduled') own.push({ from: world.now(), dueAt })
      promises.set(id, own)
    }
  })

  /**
   * Lists what had been promised at an instant to those that left after a call, or with it. One that left a moment late
   * leaves no room between itself and such a promise, and nobody is moved to a later instant for a newcomer.
   */
  function promisedTo(others: readonly Call[], at: number): readonly number[] {
    return others.flatMap(({ message: { id } }) => {
      const last = promises.get(id)?.findLast(({ from }) => from <= at)
      return last === undefined || last.dueAt < at ? [] : [last.dueAt]
    })
  }

  const keysOf = ({ message }: Call): readonly { readonly rule: LimitRule; readonly key: string }[] =>
    limitsOf(settings, 1)
      .filter(
        ({ category, channel }) =>
          (category ?? message.category) === message.category &&
          (channel ?? message.channel) === message.channel,
      )
      .flatMap((rule) =>
        (rule.per.includes('actor') ? actorsOf(message) : ['']).map((author) => ({
          rule,
          key: [rule.name, message.tenant, rule.per.includes('recipient') ? message.to.id : '', author].join(
            '/',
          ),
        })),
      )

  /** Tests if a call at the instant fits into every window that it would lie in, beside those that were made. */
  function fits({ max, windowMs, minGapMs = 0 }: LimitRule, made: readonly number[], at: number): boolean {
    if (minGapMs > 0 && made.some((each) => Math.abs(each - at) < minGapMs + marginMs)) return false
    const all = [...made, at]
    const width = windowMs + marginMs
    return all.every((from) => {
      if (from > at || at >= from + width) return true
      return all.filter((each) => each >= from && each < from + width).length <= max
    })
  }

  /** The instant from which nothing but limits and accounts held the notification up; absent where that is not known. */
  function readyAt(call: Call, row: Notification, told: ReadonlyMap<string, Exchange>): number | undefined {
    const exchange = told.get(row.id)
    if (exchange?.answeredAt === undefined || row.job !== undefined || row.actors !== undefined)
      return undefined
    if (row.requestedChannel !== undefined || call.message.attempt !== 1) return undefined
    if (row.timeline.some(({ status }) => status === 'digesting' || status === 'dead')) return undefined
    const { tenant, to } = row
    const hasHours = client.exchanges.some(
      ({ kind, caller, of, change }) =>
        kind !== 'post' &&
        kind !== 'batch' &&
        caller.tenant === tenant &&
        of === to.id &&
        change?.optOuts === undefined,
    )
    if (hasHours) return undefined
    return Math.max(exchange.answeredAt, row.sendAt ?? 0, row.turnedAt ?? 0)
  }

  /**
   * Tests if a notification of the tenant ended without a call meanwhile, or a digest closed or was put off: the place that
   * it held became free then.
   */
  function hasFreed({ tenant }: Notification, from: number, to: number): boolean {
    if (putOff.get(tenant)?.some((at) => at >= from && at <= to) === true) return true
    return [...rows.values()].some((row) => {
      const last = row.timeline.at(-1)!
      const hasLeft = row.timeline.some(
        ({ at }, index) => row.timeline[index - 1]?.status === 'digesting' && at >= from && at <= to,
      )
      const hasEnded = last.status !== 'delivered' && last.at >= from && last.at <= to
      return row.tenant === tenant && (hasEnded || hasLeft)
    })
  }

  /**
   * The time for which changes of the recipient held newcomers up meanwhile, but for one, ms: each does for as long as the
   * rights to send of other processes last (decision record 0032), one behind the other.
   */
  function changesMs({ tenant, to }: Notification, from: number, until: number): number {
    const changes = client.exchanges.filter(
      ({ kind, caller, of, sentAt, answeredAt = until }) =>
        kind === 'preferences' &&
        caller.tenant === tenant &&
        of === to.id &&
        sentAt <= until &&
        answeredAt >= from,
    )
    return Math.max(0, changes.length - 1) * rightMs
  }

  function look(call: Call, told: ReadonlyMap<string, Exchange>): void {
    const row = rows.get(call.message.id)
    const ready = row && readyAt(call, row, told)
    if (row === undefined || ready === undefined || ready >= call.at) return
    if (!calm.isCalm(ready - second, call.at) || hasFreed(row, ready - second, call.at)) return
    const limits = keysOf(call).map(({ rule, key }) => {
      const others = service.calls.filter(
        (each) => each !== call && keysOf(each).some((other) => other.key === key),
      )
      return {
        rule,
        made: others.filter(({ at }) => at < call.at).map(({ at }) => at),
        promised: promisedTo(
          others.filter(({ at }) => at >= call.at),
          ready,
        ),
        // The same calls as they were expected at that instant: some have left a moment late since.
        booked: [
          ...others.filter(({ at }) => at < ready).map(({ at }) => at),
          ...promisedTo(
            others.filter(({ at }) => at >= ready),
            ready,
          ),
        ],
      }
    })
    const instants = limits.flatMap(({ rule: { windowMs, minGapMs = 0 }, made, booked }) =>
      [...made, ...booked].flatMap((at) => [at + windowMs + marginMs, at + minGapMs + marginMs]),
    )
    const earliest = [ready, ...instants]
      .filter((at) => at >= ready)
      .sort((a, b) => a - b)
      .find((at) =>
        limits.every(
          ({ rule, made, promised, booked }) =>
            fits(rule, [...made, ...promised], at) && fits(rule, booked, at),
        ),
      )
    if (earliest === undefined || !areIdle({ settings, service }, Math.min(earliest, call.at), call.at))
      return
    looked += 1
    if (call.at - earliest > lateMs + changesMs(row, ready, call.at))
      world.violate('4 late', `${row.id} was sent ${call.at - earliest} ms after the earliest instant`)
  }

  return {
    check(told) {
      if (settings.changedLimits !== undefined || settings.faults.holds.length > 0) return
      for (const call of service.calls) look(call, told)
    },
    looked: () => looked,
  }
}

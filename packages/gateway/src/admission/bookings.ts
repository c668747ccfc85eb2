/**
 * What the limits and forbidden hours say of a case, and what follows: it holds the instant that all of them admit, or
 * it is dropped, collected, sent over another channel, or waits. All undecided cases are asked for at once, and nearly
 * all of them have their verdict from that answer alone, without waiting for anything more.
 */
import type { Asking, Book } from '../doors.ts'
import type { Channel, Notification } from '../model.ts'
import { limitName } from '../policy/counter.ts'
import type { Over, Policy } from '../policy/policy.ts'
import type { Booking, Clock } from '../ports.ts'
import {
  bookedVerdict,
  type Case,
  type Deciding,
  ruleReports,
  suppressed,
  undecidedVerdict,
  type Verdict,
} from './case.ts'
import type { Collector } from './collector.ts'
import type { Hours } from './hours.ts'
import type { Refusal } from './refusal.ts'

export interface BookingsOptions {
  readonly policy: Policy
  readonly book: Book
  readonly hours: Hours
  readonly collector: Collector
  readonly refusal: Refusal
  readonly clock: Clock
}

export interface Bookings {
  /** Gives each case its verdict. */
  conclude(cases: readonly Case[], now: number, how: Deciding): Promise<void>
  /** The verdict on one that holds an instant, where its limits admit it earlier now. */
  advance(each: Case, now: number): Promise<Verdict | undefined>
}

interface CaseAsking extends Asking {
  readonly notification: Notification
  readonly notBefore: number
}

/** The channel that carries it instead, and the limit that wanted so. */
interface Fallback {
  readonly channel: Channel
  readonly limit: string
}

/** What a verdict follows from. */
interface Answer {
  readonly each: Case
  readonly asking: CaseAsking
  readonly booking: Booking
  readonly fallback?: Fallback
}

export function createBookings(options: BookingsOptions): Bookings {
  const { policy, book, hours, collector, refusal, clock } = options
  const policyVersion = policy.version

  const ask = (askings: readonly CaseAsking[], how: Deciding): Promise<readonly Booking[]> =>
    how.dry === true ? book.preview(askings) : book.reserve(askings)

  function askingOf({ notification, person }: Case, now: number, how: Deciding): CaseAsking {
    const { sendAt = 0, expiresAt = Number.POSITIVE_INFINITY, single } = notification
    const notBefore = Math.max(now, sendAt)
    const horizonMs = Math.max(0, Math.min(policy.maxDelayMs, expiresAt - notBefore - 1))
    const waited = how.waited === true ? { waited: true } : {}
    const asking = { notification, person, notBefore, horizonMs, ...waited }
    return how.patient === true || single === true ? { ...asking, patient: true } : asking
  }

  /** Answers a promise only where more has to be asked. */
  function follow(answer: Answer, now: number, how: Deciding): Promise<void> | undefined {
    const { each, asking, booking, fallback } = answer
    const { notification } = asking
    if (booking.held) {
      each.verdict = settled(each, held(answer), fallback)
      return undefined
    }
    const { limit, over } = strongestOf(booking)
    const follows: Over = asking.patient === true ? { kind: 'delay' } : over
    switch (follows.kind) {
      case 'drop':
        each.verdict = suppressed(policyVersion, now, 'over_limit', { limit, rules: ruleReports(booking) })
        return how.dry === true || !policy.countsRefused ? undefined : countRefusal(each, asking, fallback)
      case 'digest':
        return collector.collect(each, policy.digest(follows.digest)!, now, how, { limit, booking })
      case 'fallback':
        return fallback === undefined && notification.requestedChannel === undefined
          ? fallBack(each, { channel: follows.channel, limit }, now, how)
          : wait(answer, now, how)
      case 'delay':
        each.verdict = settled(each, tooLate(answer, now), fallback)
        return undefined
    }
  }

  /** A refusal that counts is on record with its instant in `firedAt`, which is that of its suppression. */
  async function countRefusal(each: Case, asking: CaseAsking, fallback: Fallback | undefined): Promise<void> {
    if (!(await book.countRefusal(asking))) return
    const { dueAt, ...verdict } = each.verdict!
    const refused: Verdict = { ...verdict, dueAt, countsRefusal: true, patch: { firedAt: dueAt } }
    each.verdict = settled(each, refused, fallback)
  }

  function held({ asking, booking, fallback }: Answer): Verdict {
    return bookedVerdict({
      policyVersion,
      // Read again: the limits may have looked at the clock a moment after this decision began.
      now: clock.now(),
      booking,
      hours: hoursOf(asking, booking),
      ...(fallback === undefined ? {} : { fallback }),
    })
  }

  /** The hours that gave the instant: those that hold now, or those into which a limit had moved it. */
  function hoursOf({ notification, person, notBefore }: CaseAsking, booking: Booking) {
    const { at, firstAt, limit } = booking
    if (limit !== undefined || at === notBefore) return undefined
    const ended = hours.reasonUntil(notification, person, at)
    return ended === undefined && firstAt > notBefore
      ? hours.reasonAt(notification, person, notBefore)
      : ended
  }

  /** What the refusing limits want; where only the hours refuse, nothing but waiting is left. */
  function strongestOf({ refusedBy }: Booking): { readonly limit: string; readonly over: Over } {
    return refusedBy.length === 0 ? { limit: '', over: { kind: 'delay' } } : policy.strongest(refusedBy)
  }

  /** Decided anew under the limits of the other channel, once. */
  async function fallBack(each: Case, fallback: Fallback, now: number, how: Deciding): Promise<void> {
    const { channel, limit } = fallback
    const { notification: asked, person } = each
    const moved: Case = { notification: { ...asked, channel, requestedChannel: asked.channel }, person }
    const refused = refusal(each, channel, now, limit)
    if (refused !== undefined) {
      each.verdict = settled(each, refused, fallback)
      return
    }
    const asking = askingOf(moved, now, how)
    const [booking] = await ask([asking], how)
    await follow({ each: moved, asking, booking: booking!, fallback }, now, how)
    each.verdict = settled(each, moved.verdict!, fallback)
  }

  /** A second fallback does not happen: it waits for its limits instead. */
  async function wait(answer: Answer, now: number, how: Deciding): Promise<void> {
    const asking = { ...answer.asking, patient: true }
    const [booking] = await ask([asking], how)
    await follow({ ...answer, asking, booking: booking! }, now, how)
  }

  /** No instant within bounds: beyond its own expiry it waits for that, beyond maxDelay it is suppressed. */
  function tooLate({ asking, booking }: Answer, now: number): Verdict {
    const { notification, notBefore } = asking
    const { expiresAt = Number.POSITIVE_INFINITY } = notification
    const rules = ruleReports(booking)
    const { at, limit: deciding } = booking
    if (at !== Number.POSITIVE_INFINITY && at >= expiresAt && expiresAt - notBefore <= policy.maxDelayMs) {
      const verdict = undecidedVerdict(
        policyVersion,
        expiresAt,
        deciding === undefined ? (hoursOf(asking, booking) ?? 'quiet_hours') : 'recipient_limit',
        {
          at,
          ...(deciding === undefined ? {} : { limit: limitName(deciding) }),
          rules,
          detail: 'expires before it may leave',
        },
      )
      return { ...verdict, waitlisted: true }
    }
    const limit = deciding ?? booking.refusedBy[0]
    return suppressed(policyVersion, now, 'over_limit', {
      ...(limit === undefined ? {} : { limit: limitName(limit) }),
      rules,
      detail: 'beyond maxDelay',
    })
  }

  return {
    async conclude(cases, now, how) {
      if (cases.length === 0) return
      const askings = cases.map((each) => askingOf(each, now, how))
      const bookings = await ask(askings, how)
      for (const [index, each] of cases.entries()) {
        const more = follow({ each, asking: askings[index]!, booking: bookings[index]! }, now, how)
        if (more !== undefined) await more
      }
    },
    async advance(each, now) {
      const asking = askingOf(each, now, { patient: true })
      const booking = await book.advance(asking)
      return booking === undefined ? undefined : held({ each, asking, booking })
    },
  }
}

/** What every verdict on a notification that was undecided or moved to another channel writes besides. */
function settled({ notification }: Case, verdict: Verdict, fallback: Fallback | undefined): Verdict {
  const decides = notification.undecided === true
  if (!decides && fallback === undefined) return verdict
  const patch = {
    ...(decides ? { undecided: false } : {}),
    ...(fallback === undefined
      ? {}
      : {
          channel: fallback.channel,
          requestedChannel: notification.requestedChannel ?? notification.channel,
        }),
    ...verdict.patch,
  }
  return { ...verdict, patch }
}

/**
 * The decision for a batch: opt-out, duplicate, digest, then the limits and forbidden hours, which answer with the
 * earliest instant that all of them admit. Each step asks once for all that are still undecided.
 */

import type { Asking, Book } from '../doors.ts'
import type { Channel, Notification } from '../model.ts'
import { advance } from '../model.ts'
import { limitName } from '../policy/counter.ts'
import type { DigestSpec, Over, Policy } from '../policy/policy.ts'
import { address, optedOut } from '../policy/preferences.ts'
import type { Booking, Claim, Clock, LimitState } from '../ports.ts'
import {
  bookedVerdict,
  type Case,
  eventOf,
  patchOf,
  ruleReports,
  suppressed,
  undecidedVerdict,
  type Verdict,
} from './case.ts'
import type { Hours } from './hours.ts'
import type { OpenDigests } from './open-digests.ts'

export interface DeciderOptions {
  readonly policy: Policy
  readonly book: Book
  readonly state: Pick<LimitState, 'claim' | 'unclaim'>
  readonly hours: Hours
  readonly digests: OpenDigests
  /** Channels on which nobody needs an address. */
  readonly selfAddressed: ReadonlySet<Channel>
  readonly clock: Clock
}

export interface Deciding {
  /** Books nothing, takes no fingerprint, opens no digest. */
  readonly dry?: boolean
  /** It was deduplicated when it was accepted. */
  readonly again?: boolean
  /** Limits that would drop, digest or fall back make it wait instead: dead letters, items sent on their own. */
  readonly patient?: boolean
}

interface CaseAsking extends Asking {
  readonly notification: Notification
  readonly notBefore: number
}

export interface Decider {
  /** Gives every case its verdict. */
  decide(cases: readonly Case[], how?: Deciding): Promise<void>
  /** The verdict where the person's preferences or addresses alone forbid it, whatever the limits say. */
  refusal(each: Case): Verdict | undefined
  /** Gives back what the verdicts hold. */
  takeBack(cases: readonly Case[]): Promise<void>
}

/** What a notification takes so that nobody says the same within the window. */
export function claimOf(policy: Policy, notification: Notification, windowMs = 0): Claim {
  const { subject } = policy.rulesFor(notification).at(-1)!
  return { subject, fingerprint: notification.fingerprint, id: notification.id, windowMs }
}

export function createDecider(options: DeciderOptions): Decider {
  const { policy, book, state, hours, digests, selfAddressed, clock } = options
  const version = policy.version
  const windowMs = policy.deduplicationWindowMs

  async function decide(cases: readonly Case[], how: Deciding = {}): Promise<void> {
    const now = clock.now()
    for (const each of cases) {
      const refused = refusal(each, each.notification.channel, now)
      if (refused !== undefined) each.verdict = refused
    }
    // What waits for a tenant or module limit has a verdict, and takes its fingerprint now all the same.
    const claimed =
      how.again === true
        ? new Set<Case>()
        : await deduplicate(
            cases.filter((each) => each.verdict?.status !== 'suppressed'),
            now,
            how.dry === true,
          )
    for (const each of cases.filter(open)) {
      const spec = digestOf(each.notification)
      if (spec !== undefined && how.patient !== true) await collect(each, spec, now, how)
    }
    for (const each of cases.filter(open)) each.verdict = expiresBeforeItMayLeave(each.notification, now)
    await limit(cases.filter(open), now, how)
    const unclaimed = [...claimed].filter((each) => each.verdict?.status === 'suppressed')
    if (unclaimed.length > 0) await state.unclaim(unclaimed.map((each) => claimOf(policy, each.notification)))
    for (const each of claimed) {
      if (each.verdict?.status !== 'suppressed') each.verdict = { ...each.verdict!, claimed: true }
    }
  }

  function refusal(
    { notification, person }: Case,
    channel: Channel,
    now: number,
    limit?: string,
  ): Verdict | undefined {
    const more = limit === undefined ? {} : { limit }
    if (optedOut(person, notification.category, channel, notification.priority)) {
      return suppressed(version, now, 'opted_out', more)
    }
    if (!selfAddressed.has(channel) && address(notification.to, person, channel) === undefined) {
      return suppressed(version, now, 'invalid_address', { ...more, detail: `no address for ${channel}` })
    }
    return undefined
  }

  /** It waits for its end, and holds no instant that others could use. */
  function expiresBeforeItMayLeave({ expiresAt, sendAt }: Notification, now: number): Verdict | undefined {
    if (expiresAt === undefined || expiresAt > Math.max(now, sendAt ?? 0)) return undefined
    return undecidedVerdict(version, expiresAt, 'send_at', { detail: 'expires before it may leave' })
  }

  function digestOf(notification: Notification): DigestSpec | undefined {
    return notification.single === true ? undefined : policy.digestFor(notification)
  }

  /** Suppresses what was said before within the window; returns those that took their fingerprint. */
  async function deduplicate(cases: readonly Case[], now: number, dry: boolean): Promise<Set<Case>> {
    const claimed = new Set<Case>()
    if (windowMs === undefined) return claimed
    const asking = cases.filter((each) => each.notification.priority !== 'critical')
    if (asking.length === 0) return claimed
    const claims = asking.map((each) => claimOf(policy, each.notification, windowMs))
    const first = await state.claim(dry ? claims.map((claim) => ({ ...claim, dry })) : claims)
    asking.forEach((each, index) => {
      if (first[index] !== true) each.verdict = suppressed(version, now, 'duplicate')
      else if (!dry) claimed.add(each)
    })
    return claimed
  }

  /** Into the digest; one that may not be sent yet waits for that instant outside, and joins then. */
  async function collect(
    each: Case,
    spec: DigestSpec,
    now: number,
    how: Deciding,
    refusal?: Refusal,
  ): Promise<void> {
    const { notification } = each
    const sendAt = notification.sendAt ?? now
    if (sendAt > now) {
      each.verdict = undecidedVerdict(version, sendAt, 'send_at')
      return
    }
    const found =
      how.dry === true
        ? { digest: { closesAt: now + spec.windowMs }, opens: false }
        : await digests.find(notification, spec, now)
    each.verdict = {
      status: 'digesting',
      dueAt: found.digest.closesAt,
      decision: {
        outcome: 'digest',
        reason: 'digest',
        ...(refusal === undefined ? {} : { limit: refusal.limit }),
        at: found.digest.closesAt,
        policyVersion: version,
        rules: refusal === undefined ? [] : ruleReports(refusal.booking),
      },
      ...(notification.undecided === true ? { patch: { undecided: false } } : {}),
      ...('id' in found.digest ? { digest: { digest: found.digest, opens: found.opens } } : {}),
      booked: false,
    }
  }

  interface Refusal {
    readonly limit: string
    readonly booking: Booking
  }

  async function limit(cases: readonly Case[], now: number, how: Deciding): Promise<void> {
    if (cases.length === 0) return
    const askings = cases.map((each) => askingOf(each, now, how))
    const bookings = await (how.dry === true ? book.preview(askings) : book.reserve(askings))
    for (const [index, each] of cases.entries())
      await conclude(each, askings[index]!, bookings[index]!, now, how)
  }

  function askingOf({ notification, person }: Case, now: number, how: Deciding): CaseAsking {
    const notBefore = Math.max(now, notification.sendAt ?? 0)
    const untilExpiry = (notification.expiresAt ?? Number.POSITIVE_INFINITY) - notBefore - 1
    return {
      notification,
      person,
      notBefore,
      horizonMs: Math.max(0, Math.min(policy.maxDelayMs, untilExpiry)),
      ...(how.patient === true || notification.single === true ? { patient: true } : {}),
    }
  }

  async function conclude(
    each: Case,
    asking: CaseAsking,
    booking: Booking,
    now: number,
    how: Deciding,
    fallback?: { readonly channel: Channel; readonly limit: string },
  ): Promise<void> {
    const { notification } = asking
    if (booking.held) {
      const verdict = bookedVerdict({
        policyVersion: version,
        // Read again: the limits may have looked at the clock a moment after this decision began.
        now: clock.now(),
        booking,
        hours: hoursOf(asking, booking),
        ...(fallback === undefined ? {} : { fallback }),
      })
      each.verdict = settled(each, verdict, fallback)
      return
    }
    const { limit: refusing, over } = strongestOf(booking)
    const follow: Over = asking.patient === true ? { kind: 'delay' } : over
    switch (follow.kind) {
      case 'drop':
        each.verdict = suppressed(version, now, 'over_limit', {
          limit: refusing,
          rules: ruleReports(booking),
        })
        return
      case 'digest': {
        const spec = policy.digest(follow.digest)!
        await collect(each, spec, now, how, { limit: refusing, booking })
        return
      }
      case 'fallback':
        if (fallback === undefined && notification.requestedChannel === undefined) {
          await fallBack(each, follow.channel, refusing, now, how)
        } else {
          await wait(each, asking, now, how, fallback)
        }
        return
      case 'delay':
        each.verdict = settled(each, tooLate(notification, asking.notBefore, booking, now), fallback)
    }
  }

  /** The hours that gave the instant: those that hold now, or those into which a limit had moved it. */
  function hoursOf({ notification, person, notBefore }: CaseAsking, booking: Booking) {
    const { at, firstAt, limit } = booking
    if (limit !== undefined || at === notBefore) return undefined
    return firstAt > notBefore
      ? hours.reasonAt(notification, person, notBefore)
      : hours.reasonUntil(notification, person, at)
  }

  /** What the refusing limits want; where only the hours refuse, nothing but waiting is left. */
  function strongestOf({ refusedBy }: Booking): { readonly limit: string; readonly over: Over } {
    return refusedBy.length === 0 ? { limit: '', over: { kind: 'delay' } } : policy.strongest(refusedBy)
  }

  /** Decided anew under the limits of the other channel, once. */
  async function fallBack(
    each: Case,
    channel: Channel,
    limit: string,
    now: number,
    how: Deciding,
  ): Promise<void> {
    const notification: Notification = {
      ...each.notification,
      channel,
      requestedChannel: each.notification.channel,
    }
    const moved: Case = { notification, person: each.person }
    const fallback = { channel, limit }
    const refused = refusal(each, channel, now, limit)
    if (refused !== undefined) {
      each.verdict = settled(each, refused, fallback)
      return
    }
    const asking = askingOf(moved, now, how)
    const [booking] = await (how.dry === true ? book.preview([asking]) : book.reserve([asking]))
    await conclude(moved, asking, booking!, now, how, fallback)
    each.verdict = settled(each, moved.verdict!, fallback)
  }

  /** A second fallback does not happen: it waits for its limits instead. */
  async function wait(
    each: Case,
    asking: CaseAsking,
    now: number,
    how: Deciding,
    fallback?: { readonly channel: Channel; readonly limit: string },
  ): Promise<void> {
    const patient = { ...asking, patient: true }
    const [booking] = await (how.dry === true ? book.preview([patient]) : book.reserve([patient]))
    await conclude(each, patient, booking!, now, how, fallback)
  }

  /** No instant within bounds: beyond its own expiry it waits for that, beyond maxDelay it is suppressed. */
  function tooLate(notification: Notification, notBefore: number, booking: Booking, now: number): Verdict {
    const rules = ruleReports(booking)
    const { expiresAt } = notification
    const refusesAll = booking.at === Number.POSITIVE_INFINITY
    if (
      expiresAt !== undefined &&
      !refusesAll &&
      booking.at >= expiresAt &&
      expiresAt - notBefore <= policy.maxDelayMs
    ) {
      return undecidedVerdict(
        version,
        expiresAt,
        booking.limit === undefined ? 'quiet_hours' : 'recipient_limit',
        {
          at: booking.at,
          ...(booking.limit === undefined ? {} : { limit: limitName(booking.limit) }),
          rules,
          detail: 'expires before it may leave',
        },
      )
    }
    const limit = booking.limit ?? booking.refusedBy[0]
    return suppressed(version, now, 'over_limit', {
      ...(limit === undefined ? {} : { limit: limitName(limit) }),
      rules,
      detail: 'beyond maxDelay',
    })
  }

  /** What every verdict on a notification that was undecided or moved to another channel writes besides. */
  function settled(each: Case, verdict: Verdict, fallback?: { readonly channel: Channel }): Verdict {
    const { notification } = each
    const patch = {
      ...(notification.undecided === true ? { undecided: false } : {}),
      ...(fallback === undefined
        ? {}
        : {
            channel: fallback.channel,
            requestedChannel: notification.requestedChannel ?? notification.channel,
          }),
      ...verdict.patch,
    }
    return Object.keys(patch).length === 0 ? verdict : { ...verdict, patch }
  }

  return {
    decide,
    refusal: (each) => refusal(each, each.notification.channel, clock.now()),
    async takeBack(cases) {
      const booked = cases.filter((each) => each.verdict?.booked === true)
      const claimed = cases.filter((each) => each.verdict?.claimed === true)
      if (booked.length > 0) {
        const askings = booked.map(({ notification, person, verdict }) => ({
          notification: { ...notification, ...verdict!.patch },
          person,
        }))
        await book.cancel(askings)
      }
      if (claimed.length > 0) await state.unclaim(claimed.map((each) => claimOf(policy, each.notification)))
      for (const each of cases)
        if (each.verdict?.digest?.opens === true) digests.forget(each.verdict.digest.digest)
    },
  }
}

const open = (each: Case): boolean => each.verdict === undefined

/** The move of a notification on record to its verdict. */
export function moveTo(
  before: Notification,
  now: number,
  verdict: Verdict,
  path: Notification['timeline'] = [],
) {
  return advance(before, [...path, eventOf(now, verdict)], patchOf(verdict))
}

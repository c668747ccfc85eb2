/**
 * The limits as notifications meet them. A notification's rules may live under several subjects (the person; an
 * author or address of its own where a limit says so); nearly always there is one, and then a whole batch is one
 * call. Where there are several, the instant is found that all of them admit, and a refusal leaves nothing behind.
 */
import type { Limit } from '@sluice/limits'
import type { Policy } from '../policy/policy.ts'
import type { Asking, Book, Booking, Clock, LimitRequest, LimitState } from '../ports.ts'
import type { Hours } from './hours.ts'

export interface BookOptions {
  readonly state: LimitState
  readonly policy: Policy
  readonly hours: Hours
  readonly clock: Clock
}

/** Subjects that push each other's instant on settle in two rounds or three; more would be a loop. */
const roundsMax = 16

export function createBook(options: BookOptions): Book {
  const { state, policy, hours, clock } = options

  function requestsOf(asking: Asking): LimitRequest[] {
    const from = Math.max(clock.now(), asking.notBefore ?? 0)
    const forbidden = hours.forbidden(asking.notification, asking.person, from)
    return policy.rulesFor(asking.notification, asking.person).map(({ subject, rules }) => ({
      subject,
      id: asking.notification.id,
      rules: asking.patient === true ? patient(rules) : rules,
      ...(asking.notBefore === undefined ? {} : { notBefore: asking.notBefore }),
      ...(asking.horizonMs === undefined ? {} : { horizonMs: asking.horizonMs }),
      ...(forbidden === undefined ? {} : { forbidden }),
    }))
  }

  /** One call for all that have one subject; the others one after the other. */
  async function ask<Answer>(
    askings: readonly Asking[],
    together: (requests: readonly LimitRequest[]) => Promise<readonly Answer[]>,
    alone: (requests: readonly LimitRequest[]) => Promise<Answer>,
  ): Promise<readonly Answer[]> {
    const requests = askings.map(requestsOf)
    if (requests.every((of) => of.length === 1)) return together(requests.map((of) => of[0]!))
    const answers: Answer[] = []
    for (const of of requests) answers.push(of.length === 1 ? (await together(of))[0]! : await alone(of))
    return answers
  }

  const cancelAll = (requests: readonly LimitRequest[]): Promise<void> => state.cancel(requests)

  /** Moves all subjects to the latest instant that one of them gave, until they agree. */
  async function reserveTogether(requests: readonly LimitRequest[]): Promise<Booking> {
    let notBefore = requests[0]?.notBefore
    for (let round = 0; round < roundsMax; round += 1) {
      const bookings: Booking[] = []
      for (const request of requests) {
        const later = notBefore === undefined ? request : { ...request, notBefore }
        const [booking] = await state.reserve([later])
        bookings.push(booking!)
        if (!booking!.held) break
      }
      const refused = bookings.find((booking) => !booking.held)
      const latest = Math.max(...bookings.map((booking) => booking.at))
      const merged = mergeBookings(bookings, latest)
      if (refused !== undefined) {
        await cancelAll(requests)
        return { ...merged, held: false, allowed: false }
      }
      if (bookings.every((booking) => booking.at === latest)) return merged
      await cancelAll(requests)
      notBefore = latest
    }
    throw new Error('the subjects of a notification do not agree on an instant')
  }

  async function previewTogether(requests: readonly LimitRequest[]): Promise<Booking> {
    const bookings = await state.preview(requests)
    return mergeBookings(bookings, Math.max(...bookings.map((booking) => booking.at)))
  }

  async function fireTogether(requests: readonly LimitRequest[]): Promise<{ fired: boolean; at: number }> {
    const answers = await state.fire(requests)
    const at = Math.max(...answers.map((answer) => answer.at))
    if (answers.every((answer) => answer.fired)) return { fired: true, at }
    // One subject must wait, so the others' count of it is taken back and booked for later.
    await cancelAll(requests)
    const booking = await reserveTogether(
      requests.map((request) => ({ ...request, notBefore: at, rules: patient(request.rules) })),
    )
    return { fired: false, at: booking.at }
  }

  return {
    reserve: (askings) => ask(askings, (requests) => state.reserve(requests), reserveTogether),
    preview: (askings) => ask(askings, (requests) => state.preview(requests), previewTogether),
    fire: (askings) =>
      ask(
        askings.map((asking) => ({ ...asking, patient: true })),
        (requests) => state.fire(requests),
        fireTogether,
      ),
    async left({ notification, person }) {
      const requests = policy
        .rulesFor(notification, person)
        .map(({ subject, rules }) => ({ subject, id: notification.id, rules }))
      if (requests.length > 0) await state.force(requests)
    },
    async cancel(askings) {
      const requests = askings.flatMap(({ notification, person }) =>
        policy.rulesFor(notification, person).map(({ subject }) => ({ subject, id: notification.id })),
      )
      if (requests.length > 0) await state.cancel(requests)
    },
  }
}

function mergeBookings(bookings: readonly Booking[], at: number): Booking {
  const deciding = bookings.find((booking) => booking.at === at) ?? bookings[0]!
  return {
    ...deciding,
    at,
    firstAt: Math.max(...bookings.map((booking) => booking.firstAt)),
    allowed: bookings.every((booking) => booking.allowed),
    refusedBy: bookings.flatMap((booking) => booking.refusedBy),
    rules: bookings.flatMap((booking) => booking.rules),
  }
}

const patientRules = new WeakMap<readonly Limit[], readonly Limit[]>()

/** The same limits, all of which wait. */
function patient(rules: readonly Limit[]): readonly Limit[] {
  let waiting = patientRules.get(rules)
  if (waiting === undefined) {
    waiting = rules.some((rule) => rule.over === 'refuse')
      ? rules.map((rule) => (rule.over === 'refuse' ? { ...rule, over: 'delay' } : rule))
      : rules
    patientRules.set(rules, waiting)
  }
  return waiting
}

/**
 * The limits as notifications meet them. A notification's rules may live under several subjects (the recipient; an
 * author or address of its own where a limit says so); nearly always there is one, and then a whole batch is one
 * call. Where there are several, the instant is found that all of them admit, and a refusal leaves nothing behind.
 */
import type { Limit } from '@sluice/limits'
import type { Policy } from '../policy/policy.ts'
import type { Clock, Firing, LimitRequest, LimitState, Reservation, Subject } from '../ports.ts'
import type { RecipientLimiter, ReservationRequest } from '../stages.ts'
import type { ForbiddenHours } from './quiet-hours.ts'

export interface RecipientLimiterOptions {
  readonly state: LimitState
  readonly policy: Policy
  readonly forbiddenHours: ForbiddenHours
  readonly clock: Clock
  /** Places of these subjects have become free, and others wait there. They are paused: the callee resumes them. */
  readonly onFreed: (subjects: readonly Subject[]) => void
}

/**
 * Each round moves the instant on to a place of another subject, nearly always two or three times. It is as often as
 * they hold places by turns where their limits keep a distance; more than this would be a loop.
 */
const roundsMax = 2_000

export function createRecipientLimiter(options: RecipientLimiterOptions): RecipientLimiter {
  const { state, policy, forbiddenHours, clock, onFreed } = options

  function requestsOf(reservationRequest: ReservationRequest): LimitRequest[] {
    const { notification, recipient, notBefore, horizonMs } = reservationRequest
    const from = Math.max(clock.now(), notBefore ?? 0)
    const forbidden = forbiddenHours.forbidden(notification, recipient, from)
    return policy.rulesFor(notification, recipient).map(({ subject, rules }) => {
      const request: { -readonly [K in keyof LimitRequest]: LimitRequest[K] } = {
        subject,
        id: notification.id,
        rules: reservationRequest.patient === true ? patient(rules) : rules,
      }
      if (notBefore !== undefined) request.notBefore = notBefore
      if (horizonMs !== undefined) request.horizonMs = horizonMs
      if (forbidden !== undefined) request.forbidden = forbidden
      // What is critical waits for nobody (contract, Moving up).
      if (reservationRequest.waited === true || notification.priority === 'critical') request.waited = true
      return request
    })
  }

  /** Only the limits that count what they refuse. */
  function refusalsOf({ notification, recipient }: Pick<ReservationRequest, 'notification' | 'recipient'>) {
    return policy.rulesFor(notification, recipient).flatMap(({ subject, rules }) => {
      const counting = rules.filter((rule) => rule.countRefused)
      return counting.length === 0 ? [] : [{ subject, id: refusalId(notification.id), rules: counting }]
    })
  }

  /** One call for all that have one subject; the others one after the other. */
  async function ask<Answer>(
    reservationRequests: readonly ReservationRequest[],
    together: (requests: readonly LimitRequest[]) => Promise<readonly Answer[]>,
    alone: (requests: readonly LimitRequest[]) => Promise<Answer>,
  ): Promise<readonly Answer[]> {
    const requests = reservationRequests.map(requestsOf)
    if (requests.every((of) => of.length === 1)) return together(requests.map((of) => of[0]!))
    const answers: Answer[] = []
    for (const of of requests) answers.push(of.length === 1 ? (await together(of))[0]! : await alone(of))
    return answers
  }

  /** Takes back what was only tried: nobody moves up for it. */
  async function cancelAll(requests: readonly LimitRequest[]): Promise<void> {
    await state.resume(await state.cancel(requests))
  }

  /**
   * What all subjects say of the first instant, and from there the instant on which they agree: each in turn moves
   * all of them to the latest that one gave. Limits that do not wait are judged for the first instant only.
   */
  async function agree(
    requests: readonly LimitRequest[],
    ask: (requests: readonly LimitRequest[]) => Promise<readonly Reservation[]>,
    takeBack: () => Promise<void>,
  ): Promise<Reservation> {
    const first = mergeReservations(await state.preview(requests))
    if (!first.held) return { ...first, allowed: false }
    let { limit } = first
    let notBefore: number | undefined
    for (let round = 0; round < roundsMax; round += 1) {
      const reservations: Reservation[] = []
      for (const request of requests) {
        const [reservation] = await ask([notBefore === undefined ? request : moved(request, notBefore)])
        reservations.push(reservation!)
        if (!reservation!.held) break
      }
      const { at, held, allowed, limit: moving } = mergeReservations(reservations)
      if (at > (notBefore ?? first.firstAt)) limit = moving ?? limit
      if (held && reservations.every((reservation) => reservation.at === at))
        return { ...first, at, allowed, limit }
      await takeBack()
      if (!held) return { ...first, at, limit, held: false, allowed: false }
      notBefore = at
    }
    throw new Error('the subjects of a notification do not agree on an instant')
  }

  const reserveTogether = (requests: readonly LimitRequest[]): Promise<Reservation> =>
    agree(
      requests,
      (some) => state.reserve(some),
      () => cancelAll(requests),
    )

  const previewTogether = (requests: readonly LimitRequest[]): Promise<Reservation> =>
    agree(
      requests,
      (some) => state.preview(some),
      () => Promise.resolve(),
    )

  /** What leaves later than it was to leaves its place to others. */
  async function fireAll(requests: readonly LimitRequest[]): Promise<readonly Firing[]> {
    const answers = await state.fire(requests)
    const freed = answers.flatMap((answer) => answer.freed ?? [])
    if (freed.length > 0) onFreed(freed)
    return answers
  }

  async function fireTogether(requests: readonly LimitRequest[]): Promise<Firing> {
    const answers = await state.fire(requests)
    const freed = answers.flatMap((answer) => answer.freed ?? [])
    const at = Math.max(...answers.map((answer) => answer.at))
    if (answers.every((answer) => answer.fired)) return { fired: true, at }
    // One subject must wait, so the others' count of it is taken back and booked for later.
    freed.push(...(await state.cancel(requests)))
    const reservation = await reserveTogether(
      requests.map((request) => ({ ...request, notBefore: at, rules: patient(request.rules), waited: true })),
    )
    if (freed.length > 0) onFreed(freed)
    return { fired: false, at: reservation.at }
  }

  const placesOf = ({ notification, recipient }: Pick<ReservationRequest, 'notification' | 'recipient'>) =>
    policy.rulesFor(notification, recipient).map(({ subject }) => ({ subject, id: notification.id }))

  return {
    reserve: (reservationRequests) =>
      ask(reservationRequests, (requests) => state.reserve(requests), reserveTogether),
    preview: (reservationRequests) =>
      ask(reservationRequests, (requests) => state.preview(requests), previewTogether),
    fire: (reservationRequests) =>
      ask(
        reservationRequests.map((reservationRequest) => ({ ...reservationRequest, patient: true })),
        fireAll,
        fireTogether,
      ),
    async left({ notification, recipient }) {
      const requests = policy
        .rulesFor(notification, recipient)
        .map(({ subject, rules }) => ({ subject, id: notification.id, rules }))
      if (requests.length > 0) await state.force(requests)
    },
    async countRefusal(reservationRequest) {
      const requests = refusalsOf(reservationRequest)
      if (requests.length > 0) await state.force(requests)
      return requests.length > 0
    },
    async forgetRefusal(reservationRequest) {
      await cancelAll(refusalsOf(reservationRequest))
    },
    async cancel(reservationRequests) {
      const requests = reservationRequests.flatMap(placesOf)
      if (requests.length === 0) return
      const freed = await state.cancel(requests)
      if (freed.length > 0) onFreed(freed)
    },
    enlist: (reservationRequests) => state.enlist(reservationRequests.flatMap(placesOf)),
    async lift(reservationRequest) {
      const freed = await state.cancel(placesOf(reservationRequest))
      return async (isFree) => {
        if (freed.length === 0) return
        if (isFree) onFreed(freed)
        else await state.resume(freed)
      }
    },
    async advance(reservationRequest) {
      const advanced = await state.advance(requestsOf(reservationRequest))
      if (advanced === undefined) return undefined
      const { at, reservations, freed } = advanced
      if (freed.length > 0) onFreed(freed)
      return { ...mergeReservations(reservations), at, held: true, allowed: at <= clock.now() }
    },
  }
}

/** A refused notification may be decided anew and then leave: both count. */
export const refusalId = (id: string): string => `refused:${id}`

/** All of them together: the latest instant, held where every one is. */
function mergeReservations(reservations: readonly Reservation[]): Reservation {
  const at = Math.max(...reservations.map((reservation) => reservation.at))
  const mode = reservations.find((reservation) => reservation.at === at) ?? reservations[0]!
  return {
    ...mode,
    at,
    firstAt: Math.max(...reservations.map((reservation) => reservation.firstAt)),
    held: reservations.every((reservation) => reservation.held),
    allowed: reservations.every((reservation) => reservation.allowed),
    refusedBy: reservations.flatMap((reservation) => reservation.refusedBy),
    rules: reservations.flatMap((reservation) => reservation.rules),
  }
}

/** The same from a later instant on, within the same horizon; all of its limits wait. */
function moved(request: LimitRequest, notBefore: number): LimitRequest {
  const { horizonMs, rules } = request
  const passedMs = notBefore - (request.notBefore ?? notBefore)
  return {
    ...request,
    notBefore,
    rules: patient(rules),
    ...(horizonMs === undefined ? {} : { horizonMs: Math.max(0, horizonMs - passedMs) }),
  }
}

const waitOnlyRules = new WeakMap<readonly Limit[], readonly Limit[]>()

/** The same limits, all of which wait. */
function patient(rules: readonly Limit[]): readonly Limit[] {
  let waiting = waitOnlyRules.get(rules)
  if (waiting === undefined) {
    waiting = rules.some((rule) => rule.over === 'refuse')
      ? rules.map((rule) => (rule.over === 'refuse' ? { ...rule, over: 'delay' } : rule))
      : rules
    waitOnlyRules.set(rules, waiting)
  }
  return waiting
}

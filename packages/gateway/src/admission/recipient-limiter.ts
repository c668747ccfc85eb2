/**
 * Asks the limits of the recipients of notifications (ports/limiter.ts), with the rules and the forbidden hours of the
 * policy in force. A notification counts in one subject, its recipient, or in several where limits count by other keys too:
 * then the earliest instant that all of them admit is searched for, reserved in one subject after the other, and given back
 * where another try was quicker in one of them.
 */
import { RulesReplaced } from '../errors.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, Firing, LimitRequest, LimitState, Reservation, SlotRelease, Subject } from '../ports.ts'
import type { RecipientLimiter, ReleaseRequest, ReservationRequest } from '../stages.ts'
import { type ForbiddenHours, laterOf } from './quiet-hours.ts'
import { mergeReservations, moved, waitOnly } from './several-subjects.ts'

export interface RecipientLimiterOptions {
  readonly state: LimitState
  readonly policy: Policy
  readonly forbiddenHours: ForbiddenHours
  readonly clock: Clock
  /** Reports paused subjects with a freed slot, at this instant where it is known. The callee resumes them. */
  readonly onFreed: (subjects: readonly Subject[], at?: number) => void
}

/**
 * Each round moves the time on to a slot of another subject, nearly always two or three times; limits that keep a distance
 * need one for each slot that the subjects hold in alternation. More would be a loop.
 */
const roundsMax = 2_000

/** An instant that all subjects of a notification admit, and the requests that ask for it. */
interface Agreement {
  readonly reservation: Reservation
  readonly asked: readonly LimitRequest[]
}

export function createRecipientLimiter(options: RecipientLimiterOptions): RecipientLimiter {
  const { state, policy, forbiddenHours, clock, onFreed } = options

  function requestsOf(reservationRequest: ReservationRequest): LimitRequest[] {
    const { notification, recipient, horizonMs, promisedAt, inTurn, print } = reservationRequest
    const notBefore = laterOf(reservationRequest.notBefore, forbiddenHours.heldUntil(notification))
    const from = Math.max(clock.now(), notBefore ?? 0)
    const forbidden = forbiddenHours.forbidden(notification, recipient, from)
    return policy.rulesFor(notification, recipient).map(({ subject, rules }) => {
      const request: { -readonly [K in keyof LimitRequest]: LimitRequest[K] } = {
        subject,
        id: notification.id,
        rules: reservationRequest.waitOnly === true ? waitOnly(rules) : rules,
      }
      if (notBefore !== undefined) request.notBefore = notBefore
      if (horizonMs !== undefined) request.horizonMs = horizonMs
      if (forbidden !== undefined) request.forbidden = forbidden
      if (promisedAt !== undefined) request.promisedAt = promisedAt
      if (inTurn !== undefined) request.inTurn = inTurn
      if (print !== undefined && subject.recipient !== undefined) request.print = print
      // A critical notification does not wait for others to move up (contract, Moving up).
      if (reservationRequest.waited === true || notification.priority === 'critical') request.waited = true
      return request
    })
  }

  /** Builds requests for the limits that count refusals. */
  function refusalsOf({ notification, recipient }: Pick<ReservationRequest, 'notification' | 'recipient'>) {
    return policy.rulesFor(notification, recipient).flatMap(({ subject, rules }) => {
      const counting = rules.filter((rule) => rule.countRefused)
      return counting.length === 0 ? [] : [{ subject, id: refusalId(notification.id), rules: counting }]
    })
  }

  /** Makes one call for all requests where each has one subject; else one call after the other. */
  async function ask<Answer>(
    reservationRequests: readonly ReservationRequest[],
    together: (requests: readonly LimitRequest[]) => Promise<readonly Answer[]>,
    alone: (requests: readonly LimitRequest[]) => Promise<Answer>,
  ): Promise<readonly Answer[]> {
    return underRulesInForce(async () => {
      const requests = reservationRequests.map(requestsOf)
      if (requests.every((own) => own.length === 1)) return await together(requests.map((own) => own[0]!))
      const answers: Answer[] = []
      for (const own of requests)
        answers.push(own.length === 1 ? (await together(own))[0]! : await alone(own))
      return answers
    })
  }

  /** Gives back what this try reserved. Another one may have sent the notification meanwhile: that count stays. */
  const giveBack = (requests: readonly LimitRequest[]): Promise<void> =>
    release(requests.map((request) => ({ ...request, unlessFired: { after: -1, rules: request.rules } })))

  /**
   * Finds an instant that all subjects admit, beginning with the first one that is allowed, and reserves nothing: each round
   * moves all of them to the latest answer. Limits that refuse instead of delaying are checked at the first time only.
   */
  async function agree(requests: readonly LimitRequest[]): Promise<Agreement> {
    const answers = await state.preview(requests)
    const first = mergeReservations(answers)
    let [asked, reservations, merged, limit] = [requests, answers, first, first.limit]
    for (let round = 0; round < roundsMax; round += 1) {
      const { at, held, allowed } = merged
      // The subjects are asked one after the other, so instants of those that admit it at once differ by moments.
      const areOne = allowed || reservations.every((reservation) => reservation.at === at)
      if (!held || areOne)
        return { reservation: { ...first, at, limit, held, allowed: held && allowed }, asked }
      asked = requests.map((request) => moved(request, at))
      reservations = await state.preview(asked)
      merged = mergeReservations(reservations)
      if (merged.at > at) limit = merged.limit ?? limit
    }
    throw new Error('the subjects of a notification do not agree on an instant')
  }

  /** Reserves what was agreed in one subject after the other; undefined where another try has taken it in one of them. */
  async function take({ reservation: agreed, asked }: Agreement): Promise<Reservation | undefined> {
    for (const [index, request] of asked.entries()) {
      const [reservation] = await state.reserve([request])
      const { at, held, allowed, fired } = reservation!
      // Another try has sent it: this one will be refused at its commit.
      if (fired) return { ...agreed, at, held, allowed }
      if (held && (at === agreed.at || (allowed && agreed.allowed))) continue
      await giveBack(asked.slice(0, index + 1))
      return undefined
    }
    return agreed
  }

  async function reserveTogether(requests: readonly LimitRequest[]): Promise<Reservation> {
    for (let round = 0; round < roundsMax; round += 1) {
      const agreement = await agree(requests)
      if (!agreement.reservation.held) return agreement.reservation
      const taken = await take(agreement)
      if (taken !== undefined) return taken.allowed ? taken : await closeUp(requests, taken)
    }
    throw new Error('others take each instant on which the subjects of a notification agree')
  }

  /** Moves up to a place that became free before this one was reserved: those who let others move up did not see it wait. */
  async function closeUp(requests: readonly LimitRequest[], reservation: Reservation): Promise<Reservation> {
    const isNewcomer = requests.some(({ waited }) => waited !== true)
    const advanced = await state.advance(requests, { isNewcomer })
    if (advanced === undefined) return reservation
    if (advanced.freed.length > 0) onFreed(advanced.freed, advanced.from)
    return { ...reservation, at: advanced.at, allowed: advanced.at <= clock.now() }
  }

  /** Fires notifications; one that leaves later than its slot frees that slot. */
  async function fireAll(requests: readonly LimitRequest[]): Promise<readonly Firing[]> {
    const answers = await state.fire(requests)
    const freed = answers.flatMap((answer) => answer.freed ?? [])
    if (freed.length > 0) onFreed(freed)
    return answers
  }

  /**
   * Fires in several subjects. Where one of them refuses, the count under the others is moved to the earliest instant that
   * all of them admit beside what has left: as under one subject, those who wait behind do not block it. The earliest
   * answer says for how long they hold. Freed subjects are paused: they are reported after an error as well.
   */
  async function fireTogether(requests: readonly LimitRequest[]): Promise<Firing> {
    const freed: Subject[] = []
    try {
      for (let round = 0, asked = requests; round < roundsMax; round += 1) {
        const answers = await state.fire(asked)
        freed.push(...answers.flatMap((answer) => answer.freed ?? []))
        const duplicate = answers.find(({ isDuplicate }) => isDuplicate)
        if (duplicate !== undefined) return duplicate
        const fired = answers.every((answer) => answer.fired)
        const instants = answers.map(({ at }) => at)
        const at = Math.max(...instants)
        if (fired || answers.every((answer) => !answer.fired && answer.at === at))
          return { fired, at: fired ? Math.min(...instants) : at }
        asked = requests.map((request) => moved(request, at))
      }
      throw new Error('the subjects of a notification do not agree on an instant')
    } finally {
      if (freed.length > 0) onFreed(freed)
    }
  }

  /** Releases slots, and lets those who wait for them move up. */
  async function release(requests: readonly SlotRelease[]): Promise<void> {
    if (requests.length === 0) return
    const freed = await state.cancel(requests)
    if (freed.length > 0) onFreed(freed)
  }

  const placesOf = ({ notification, recipient }: Pick<ReservationRequest, 'notification' | 'recipient'>) =>
    policy.rulesFor(notification, recipient).map(({ subject }) => ({ subject, id: notification.id }))

  const recordedPlaces = (recorded: Parameters<RecipientLimiter['adopt']>[0]) =>
    recorded.flatMap(({ notification, recipient }) =>
      policy
        .rulesFor(notification, recipient)
        .map(({ subject, rules }) => ({ subject, id: notification.id, rules, at: notification.dueAt })),
    )

  /** Another gateway may have sent the notification meanwhile: what was fired after its own `firedAt` stays counted. */
  function unfiredPlacesOf({ notification, recipient }: ReleaseRequest): SlotRelease[] {
    const { id, firedAt: after = Number.NEGATIVE_INFINITY } = notification
    return policy
      .rulesFor(notification, recipient)
      .map(({ subject, rules }) => ({ subject, id, unlessFired: { after, rules } }))
  }

  return {
    reserve: (reservationRequests) =>
      ask(reservationRequests, (requests) => state.reserve(requests), reserveTogether),
    preview: (reservationRequests) =>
      ask(
        reservationRequests,
        (requests) => state.preview(requests),
        async (requests) => (await agree(requests)).reservation,
      ),
    fire: (reservationRequests) =>
      ask(
        reservationRequests.map(({ notification, recipient, print }) => ({
          notification,
          recipient,
          waitOnly: true,
          ...(print === undefined ? {} : { print }),
        })),
        fireAll,
        fireTogether,
      ),
    countAsSent: ({ notification, recipient, at = 0 }) =>
      underRulesInForce(async () => {
        const requests = policy
          .rulesFor(notification, recipient)
          .map(({ subject, rules }) => ({ subject, id: notification.id, rules, at }))
        if (requests.length > 0) await state.force(requests)
      }),
    countRefusal: (reservationRequest) =>
      underRulesInForce(async () => {
        const requests = refusalsOf(reservationRequest)
        if (requests.length > 0) await state.force(requests)
        return requests.length > 0
      }),
    forgetRefusal: async (reservationRequest) =>
      state.resume(await state.cancel(refusalsOf(reservationRequest))),
    cancel: (reservationRequests) => release(reservationRequests.flatMap(placesOf)),
    takeBack: (releaseRequests) => release(releaseRequests.flatMap(unfiredPlacesOf)),
    enlist: (requests) => underRulesInForce(() => state.enlist(requests.flatMap(placesOf))),
    async lift(releaseRequest) {
      const freed = await state.cancel(unfiredPlacesOf(releaseRequest))
      return async (isFree) => {
        if (freed.length === 0) return
        if (isFree) onFreed(freed)
        else await state.resume(freed)
      }
    },
    reservedAt: (releaseRequest) => state.reservedAt(placesOf(releaseRequest)),
    planAround: (releaseRequest) => state.planAround(placesOf(releaseRequest)),
    putBack: (recorded) =>
      underRulesInForce(async () => {
        const all = recordedPlaces(recorded).filter(({ rules }) => rules.length > 0)
        const put = await state.adopt(all, { keepsLater: true })
        return all.map(({ subject }, index) => ({ subject, isPut: put[index]! }))
      }),
    async adopt(recorded) {
      const requests = await underRulesInForce(async () => {
        const all = recordedPlaces(recorded)
        await state.adopt(all)
        return all
      })
      const subjects = [...new Map(requests.map(({ subject }) => [subject.key, subject])).values()]
      await state.pause(subjects)
      onFreed(subjects)
    },
    async advance(reservationRequest) {
      const advanced = await underRulesInForce(() => state.advance(requestsOf(reservationRequest)))
      if (advanced === undefined) return undefined
      if (advanced.freed.length > 0) onFreed(advanced.freed, advanced.from)
      const { at } = advanced
      return { ...mergeReservations(advanced.reservations), at, held: true, allowed: at <= clock.now() }
    },
  }
}

/** Asks again where the policy was replaced while the limiter's state was being filled: once for each reload. */
async function underRulesInForce<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof RulesReplaced)) throw error
    }
  }
}

/** The id of a counted refusal. The notification may be decided anew and then leave: both count. */
export const refusalId = (id: string): string => `refused:${id}`

/**
 * Moves a waiting notification to an earlier slot. Under one subject that is one script. Under several subjects, the slots
 * are looked at until all of them admit one instant. That is claimed in one subject after the other, and the old slots are
 * left when all are claimed; where another process was quicker in one of them, the claims are dropped, and all are looked
 * at again. Newcomers are held up meanwhile.
 */
import type { Advance, LimitRequest, LimitState, Reservation, Subject } from '../../../ports.ts'
import { termsOf } from '../limit-terms.ts'
import { type LimitCalls, unasked } from './limit-calls.ts'
import type { LimitHolds } from './limit-holds.ts'
import { unavailable } from './redis-answers.ts'

export interface LimitAdvanceOptions {
  readonly calls: LimitCalls
  readonly holds: Pick<LimitHolds, 'note' | 'resume'>
  /** A claim was dropped where others wait, who may have looked meanwhile. The subject is paused: the callee resumes it. */
  readonly onDropped: (subject: Subject) => void
}

interface Asked extends LimitRequest {
  readonly isNewcomer: boolean
}

/** The slots of one notification in its subjects agree nearly always in two or three rounds. */
const roundsMax = 2_000

export function createLimitAdvance({ calls, holds, onDropped }: LimitAdvanceOptions): LimitState['advance'] {
  /** Asks for the slot of an id in one subject. */
  function ask(
    request: Asked,
    [way, from = 0, to = 0]: readonly [way: string, from?: number, to?: number],
    notBefore = request.notBefore,
    token?: string,
  ) {
    const { subject, id, rules, isNewcomer } = request
    const terms = { ...termsOf(request), id, ...(notBefore === undefined ? {} : { notBefore }) }
    const streams = JSON.stringify(rules.map((rule) => rule.stream))
    return calls.ask(
      {
        operation: 'advance',
        subject,
        hasRules: true,
        own: [streams, way, String(from), String(to), isNewcomer ? '1' : '0'],
        ...(token === undefined ? {} : { token }),
      },
      (limits) => limits.reserve(subject.key, rules, terms),
    )
  }

  /**
   * Ends the claim of a move, without asking the limits; true where the subject is paused under the token, for others wait.
   * Throws where a claim to be taken was lost with what the limits knew: its slot may be another's by now.
   */
  async function step(
    { subject, id, rules }: LimitRequest,
    [way, from = 0, to = 0]: readonly [way: 'to' | 'drop', from?: number, to?: number],
    token: string,
  ): Promise<boolean> {
    const streams = JSON.stringify(rules.map((rule) => rule.stream))
    const own = [...unasked(id), streams, way, String(from), String(to)]
    const [paused] = await calls.run({ operation: 'advance', subject, own, token })
    if (paused === undefined) throw unavailable(subject.key, 'it has lost a claim')
    if (paused !== 1) return false
    holds.note(subject, token)
    return true
  }

  /** Notes the new instant in subjects without limits of their own. */
  async function follow(
    all: readonly LimitRequest[],
    moved: readonly LimitRequest[],
    at: number,
  ): Promise<void> {
    const others = all.filter((request) => !moved.includes(request))
    await Promise.all(
      others.map(({ subject, id }) => calls.run({ operation: 'follow', subject, own: [id, String(at)] })),
    )
  }

  async function underOne(request: Asked, promisedAt: number): Promise<Advance | undefined> {
    const token = calls.newToken()
    const promise = promisedAt === Number.POSITIVE_INFINITY ? 9e15 : promisedAt
    const asked = await ask(request, ['earlier', promise], request.notBefore, token)
    if (asked.answer === undefined) return undefined
    const [from, at, paused] = asked.added.map(Number) as [number, number, number]
    if (paused === 1) holds.note(request.subject, token)
    return { at, from, reservations: [asked.answer], freed: paused === 1 ? [request.subject] : [] }
  }

  async function underSeveral(requests: readonly Asked[], promisedAt: number): Promise<Advance | undefined> {
    let first: readonly Reservation[] | undefined
    let notBefore: number | undefined
    for (let round = 0; round < roundsMax; round += 1) {
      const looks = await Promise.all(
        requests.map((request) => ask(request, ['look'], notBefore ?? request.notBefore)),
      )
      const reservations: Reservation[] = []
      const froms: number[] = []
      const slots: number[] = []
      for (const look of looks) {
        if (look.answer === undefined) return undefined
        reservations.push(look.answer)
        const [from, at] = look.added.map(Number) as [number, number]
        froms.push(from)
        slots.push(at < 0 ? Number.POSITIVE_INFINITY : at)
      }
      const from = froms[0]!
      if (froms.some((other) => other !== from)) return undefined
      first ??= reservations
      const at = Math.max(...slots)
      if (at >= from)
        return promisedAt < from ? { at: from, from, reservations: first, freed: [] } : undefined
      if (slots.every((slot) => slot === at)) {
        if (await claim(requests, from, at, notBefore))
          return { at, from, reservations: first, freed: await take(requests, from, at) }
        notBefore = undefined
      } else notBefore = at
    }
    throw new Error('the subjects of a notification do not agree on an earlier instant')
  }

  /** Claims the slot at `at` in all of the subjects, or in none. */
  async function claim(
    requests: readonly Asked[],
    from: number,
    at: number,
    notBefore: number | undefined,
  ): Promise<boolean> {
    const claimed: LimitRequest[] = []
    let isClaimed = false
    try {
      for (const request of requests) {
        // Before it is asked: where the answer is lost, the claim may stand.
        claimed.push(request)
        const asked = await ask(request, ['claim', from, at], notBefore ?? request.notBefore)
        if (asked.answer !== undefined) continue
        claimed.pop()
        return false
      }
      isClaimed = true
    } finally {
      if (!isClaimed) await Promise.allSettled(claimed.map(drop))
    }
    return true
  }

  async function drop(request: LimitRequest): Promise<void> {
    if (await step(request, ['drop'], calls.newToken())) onDropped(request.subject)
  }

  /** Leaves the old slots for those that are claimed; returns the subjects that are paused. */
  async function take(requests: readonly Asked[], from: number, at: number): Promise<readonly Subject[]> {
    const token = calls.newToken()
    const freed: Subject[] = []
    try {
      for (const request of requests)
        if (await step(request, ['to', from, at], token)) freed.push(request.subject)
    } catch (error) {
      // Claims that are left would count as sent. The caller puts the notification back to its slot on record.
      await Promise.allSettled([holds.resume(freed), ...requests.map(drop)])
      throw error
    }
    return freed
  }

  return async (given, { isNewcomer = false } = {}) => {
    const all = given.map((request) => ({ ...request, isNewcomer }))
    const limited = all.filter(({ rules }) => rules.length > 0)
    const requests = limited.length > 0 ? limited : all
    const promisedAt = Math.min(...all.map(({ promisedAt: promise = Number.POSITIVE_INFINITY }) => promise))
    const advanced =
      requests.length === 1
        ? await underOne(requests[0]!, promisedAt)
        : await underSeveral(requests, promisedAt)
    if (advanced !== undefined && advanced.at < advanced.from)
      await follow(all, requests, advanced.at).catch(async (error) => {
        // The caller hears of no pause, and nobody else would end it.
        await holds.resume(advanced.freed)
        throw error
      })
    return advanced
  }
}

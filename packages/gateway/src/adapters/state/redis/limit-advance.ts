/**
 * Moves a waiting notification to an earlier slot. Under one subject that is one script. Under several subjects, the slots
 * are looked at until all of them admit one instant, and then taken one after the other; where another process was
 * quicker in one of them, those that were taken are left again. Newcomers are held up meanwhile.
 */
import type { Advance, LimitRequest, LimitState, Reservation, Subject } from '../../../ports.ts'
import { termsOf } from '../limit-terms.ts'
import { type LimitCalls, unasked } from './limit-calls.ts'
import type { LimitHolds } from './limit-holds.ts'

export interface LimitAdvanceOptions {
  readonly calls: LimitCalls
  readonly holds: Pick<LimitHolds, 'note' | 'resume'>
}

interface Asked extends LimitRequest {
  readonly isNewcomer: boolean
}

/** The slots of one notification in its subjects agree nearly always in two or three rounds. */
const roundsMax = 2_000

export function createLimitAdvance({ calls, holds }: LimitAdvanceOptions): LimitState['advance'] {
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

  /** Puts an id back into the slot that it left. */
  const leave = ({ subject, id, rules }: LimitRequest, from: number) =>
    calls.run({
      operation: 'advance',
      subject,
      own: [...unasked(id), JSON.stringify(rules.map((rule) => rule.stream)), 'back', String(from)],
    })

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
        const freed = await take(requests, from, at, notBefore)
        return freed === undefined ? undefined : { at, from, reservations: first, freed }
      }
      notBefore = at
    }
    throw new Error('the subjects of a notification do not agree on an earlier instant')
  }

  /** Takes the slot at `at` in all of the subjects, or in none; returns those that are paused. */
  async function take(
    requests: readonly Asked[],
    from: number,
    at: number,
    notBefore: number | undefined,
  ): Promise<readonly Subject[] | undefined> {
    const token = calls.newToken()
    const taken: LimitRequest[] = []
    const freed: Subject[] = []
    for (const request of requests) {
      const asked = await ask(request, ['to', from, at], notBefore ?? request.notBefore, token).catch(
        async (error) => {
          await holds.resume(freed)
          throw error
        },
      )
      if (asked.answer === undefined) {
        await Promise.all(taken.map((each) => leave(each, from))).finally(() => holds.resume(freed))
        return undefined
      }
      taken.push(request)
      if (asked.added[2] !== 1) continue
      holds.note(request.subject, token)
      freed.push(request.subject)
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

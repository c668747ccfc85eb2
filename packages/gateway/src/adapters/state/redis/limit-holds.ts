/**
 * Holds newcomers of subjects up, in all processes: while places are given to those who wait, or behind a floor. A hold has
 * a token, so that it may be set and released again and again, and lapses in Redis unless its process renews it. Holds
 * keep an order and no window: where Redis is away they hold the newcomers of this process only, and nothing rejects.
 */
import type { LimitState, Subject } from '../../../ports.ts'
import { Pauses } from '../pauses.ts'
import type { LimitCall, LimitCalls } from './limit-calls.ts'
import type { Reply } from './redis-answers.ts'

export interface LimitHoldsOptions {
  readonly calls: Pick<LimitCalls, 'newToken' | 'run'>
  readonly member: string
  readonly onError: (what: string, error: unknown) => void
}

export interface LimitHolds extends Pick<LimitState, 'pause' | 'resume' | 'queueBehind' | 'close'> {
  /** Resolves when this process holds newcomers of the subject up no longer; undefined where it does not. */
  over(subject: Subject): Promise<void> | undefined
  /** Notes a pause that an operation has begun in Redis under this token. */
  note(subject: Subject, token: string): void
  /** Notes that this process plans the subject again: an operation has said so in Redis under this token. */
  beginPlan(subject: Subject, token: string): void
  endPlan(subject: Subject, token: string): Promise<void>
}

/** Holds of a subject by this process. */
interface Held {
  readonly subject: Subject
  /** One a pause. */
  readonly tokens: string[]
  /** One a plan. No resumption ends it. */
  readonly plans: Set<string>
  /** The ids behind which newcomers are booked. */
  floorIds: readonly string[]
}

/** A hold lapses 5 s after it was renewed last (limit-subject.lua); it is renewed so often, ms. */
const renewMs = 1_500

export function createLimitHolds({ calls, member, onError }: LimitHoldsOptions): LimitHolds {
  const pauses = new Pauses()
  /** By the key of the subject; as many as subjects in which waiting notifications move up. */
  const held = new Map<string, Held>()
  const floorToken = `${member}:floor`

  /** Returns what the script answers; undefined where it did not. */
  async function tell(call: LimitCall): Promise<Reply | undefined> {
    try {
      return (await calls.run(call))[0]
    } catch (error) {
      onError('hold newcomers of a subject up', error)
      return undefined
    }
  }

  const tellHold = (subject: Subject, tokens: readonly string[]): Promise<unknown> =>
    tell({ operation: 'hold', subject, own: [JSON.stringify(tokens.map((token) => [token, false]))] })

  const tellFloor = (subject: Subject, ids: readonly string[]): Promise<Reply | undefined> =>
    tell({ operation: 'floor', subject, token: floorToken, own: [JSON.stringify(ids)] })

  function of(subject: Subject): Held {
    let found = held.get(subject.key)
    if (found === undefined) {
      found = { subject, tokens: [], plans: new Set(), floorIds: [] }
      held.set(subject.key, found)
    }
    return found
  }

  function dropIdle({ subject, tokens, plans, floorIds }: Held): void {
    if (tokens.length === 0 && plans.size === 0 && floorIds.length === 0) held.delete(subject.key)
  }

  function note(subject: Subject, token: string): void {
    pauses.pause(subject.key)
    of(subject).tokens.push(token)
  }

  const renewing = setInterval(() => {
    for (const { subject, tokens, plans, floorIds } of held.values()) {
      if (tokens.length + plans.size > 0) void tellHold(subject, [...tokens, ...plans])
      if (floorIds.length > 0) void tellFloor(subject, floorIds)
    }
  }, renewMs)
  renewing.unref()

  return {
    note,
    over: ({ key }) => pauses.over(key),
    beginPlan(subject, token) {
      pauses.pause(subject.key)
      of(subject).plans.add(token)
    },
    async endPlan(subject, token) {
      const own = of(subject)
      own.plans.delete(token)
      dropIdle(own)
      const told = tell({ operation: 'release', subject, own: [token] })
      pauses.resumeAll([subject])
      await told
    },
    async pause(subjects) {
      await Promise.all(
        subjects.map((subject) => {
          const token = calls.newToken()
          note(subject, token)
          return tellHold(subject, [token])
        }),
      )
    },
    async resume(subjects) {
      const told = subjects.flatMap((subject) => {
        const own = held.get(subject.key)
        const token = own?.tokens.shift()
        if (own === undefined || token === undefined) return []
        dropIdle(own)
        return [tell({ operation: 'release', subject, own: [token] })]
      })
      // Newcomers of this process ask after the release, which is on its way.
      pauses.resumeAll(subjects)
      await Promise.all(told)
    },
    async queueBehind(subject, ids) {
      const own = of(subject)
      const hadFloor = own.floorIds.length > 0
      own.floorIds = ids
      dropIdle(own)
      return (hadFloor || ids.length > 0) && (await tellFloor(subject, ids)) === 1
    },
    async close() {
      clearInterval(renewing)
      const all = [...held.values()]
      held.clear()
      await Promise.all(
        all.map(({ subject, tokens, plans }) =>
          tell({ operation: 'release', subject, own: [...tokens, ...plans, floorToken] }),
        ),
      )
    },
  }
}

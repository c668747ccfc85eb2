/**
 * Asks Redis about the limits of one subject. Each question of `@sluice/limits` goes out within an operation of
 * limit-subject.lua and limit-operations.lua, which answer that the subject is unknown, that newcomers are held up, or what
 * the library's script has decided. An unknown subject is filled from the record by one caller; others ask again meanwhile.
 */
import { createLimits, type Limits, LimitsError, redisStore } from '@sluice/limits'
import { RulesReplaced } from '../../../errors.ts'
import type { RecoveredSubject } from '../../../ports/recovered-subject.ts'
import type { Clock, Subject } from '../../../ports.ts'
import { type ClaimRenewal, keepClaim } from './claim-renewal.ts'
import { createHeldUpQueues, isHeldUp, pausesMs } from './held-up-queues.ts'
import { isOverBy } from './is-over-by.ts'
import type { OutdatedSubjects } from './outdated-subjects.ts'
import { type Reply, unavailable } from './redis-answers.ts'
import type { RedisState } from './redis-state.ts'
import { limitsScript } from './scripts.ts'

export interface LimitCallsOptions {
  readonly redis: RedisState
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  readonly member: string
  readonly marginMs: number
  readonly recover: (subject: Subject) => RecoveredSubject | Promise<RecoveredSubject>
  readonly rulesName: () => string
  /** Tells of a subject that was filled with outdated facts, and is paused under the token. */
  readonly onOutdated: (subject: Subject, token: string) => void
  /** Bounds how often that is told. @defaultValue always */
  readonly outdated?: Pick<OutdatedSubjects, 'hasMovedUp' | 'putOff'>
  readonly onError: (what: string, error: unknown) => void
}

/** An operation on a subject. */
export interface LimitCall {
  readonly operation: string
  readonly subject: Subject
  /** The arguments of the operation, behind those of the library. */
  readonly own?: readonly string[]
  /** The name of the rules under which the subject is filled. @defaultValue those in force when it is sent */
  readonly rules?: string
  /** True if the question has rules: it is not asked under others than it was made for. */
  readonly hasRules?: boolean
  /** @defaultValue a new one */
  readonly token?: string
  /** The longest time that it may take, ms. @defaultValue that of `redis` */
  readonly deadlineMs?: number
  /**
   * A newcomer waits until then where newcomers are held up, an instant of `Clock.monotonic`. Another question waits
   * until the plan that holds it up ends, or its lease.
   */
  readonly newcomerUntil?: number | undefined
}

/** An answer with what the operation adds to that of the library. */
interface LimitAnswer<Answer> {
  readonly answer: Answer
  readonly added: readonly Reply[]
}

export interface LimitCalls {
  /** Returns a token that no other call of any process has. */
  newToken(): string
  /** Asks a question of the library within an operation; undefined where the operation did not come to ask it. */
  ask<Answer>(
    call: LimitCall,
    question: (limits: Limits) => Promise<Answer>,
  ): Promise<LimitAnswer<Answer> | Unasked>
  /** Runs an operation that asks the library nothing, and returns what stands behind its `ok`. */
  run(call: LimitCall): Promise<readonly Reply[]>
  /** The rules have changed. */
  renew(): void
}

/** The operation refused before the library was asked: an instant that is held, or nothing. */
interface Unasked {
  readonly answer: undefined
  readonly heldAt: number | undefined
  readonly added: readonly Reply[]
}

/** The operation did not come to ask the library. */
class Withheld extends Error {
  readonly heldAt: number | undefined
  constructor(heldAt: number | undefined) {
    super('the library was not asked')
    this.heldAt = heldAt
  }
}

/** A question on its way to the runner, which is called in the same turn of the event loop. */
interface LimitQuestion extends LimitCall {
  added: readonly Reply[]
}

/** A question waits so much longer at most while its subject is filled, be it again and again, ms. */
const fillsMs = 2_000
/**
 * A newcomer waits so long at most while newcomers are held up, ms. Behind a loss of Redis those of many recipients move up at
 * once, and a process that was killed meanwhile holds newcomers up for five seconds.
 */
export const heldUpMs = 1_000
/** A claim to fill a subject lapses 2 s after it was renewed last (limit-subject.lua). */
const renewal: ClaimRenewal = { everyMs: 800, timesMax: 10 }
/** Pauses before the next question, while another process fills a subject or plans it, ms. */
const pauseMsOf = (tries: number): number => pausesMs[Math.min(tries, pausesMs.length - 1)]!
/**
 * An id that no limit counts, and no notification has: it keeps a value without other ids, so that a recipient without
 * notifications is known (limit-subject.lua).
 */
export const keepingId = '.'
const keyNames = { name: '', others: [':about', ':waiting', ':prints'] } as const
/** The arguments in the places of those of the library, for an operation on an id that does not ask it. */
export const unasked = (id: string): readonly string[] => ['', '', '', id, '', '', '']

/** The library's question about an id without limits, and its header: an id that counts is answered its instant. */
export const unlimited: readonly string[] = (() => {
  let asked: readonly string[] = []
  const store = redisStore({
    runnerOf: () => (_, args) => {
      asked = args.slice(0, 2)
      return Promise.reject(new Error('nothing is asked here'))
    },
  })
  createLimits({ store })
    .take('subject', [], { id: 'id' })
    .catch(() => undefined)
  return asked
})()

const isNothing = ({ entries, fingerprints, waitlist, isOutdated }: RecoveredSubject): boolean =>
  entries.length + fingerprints.length + waitlist.length === 0 && isOutdated !== true

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

export function createLimitCalls(options: LimitCallsOptions): LimitCalls {
  const { redis, clock, member, marginMs, recover, rulesName, onOutdated, outdated, onError } = options
  /** Fills under way, by subject: as many as subjects that questions of this process wait for. */
  const filling = new Map<string, Promise<string | undefined>>()
  const heldUpQueues = createHeldUpQueues(clock)
  let generation = 0
  let serial = 0
  let asking: LimitQuestion | undefined

  const limits = createLimits({
    marginMs,
    store: redisStore(
      {
        runnerOf: () => (_, args) => {
          const call = asking
          if (call === undefined) throw new Error('the library asks in the turn in which it is asked')
          asking = undefined
          return answerOf(call, args)
        },
      },
      // The deadline is that of `redis`.
      { deadlineMs: 2 ** 31 - 1 },
    ),
  })

  const newToken = (): string => {
    serial += 1
    return `${member}:${serial}`
  }

  const send = (
    call: LimitCall,
    token: string,
    args: readonly string[],
    withinMs: number,
  ): Promise<readonly Reply[]> =>
    redis
      .ask(
        limitsScript,
        { subject: `l/${call.subject.key}`, ...keyNames },
        [call.operation, call.rules ?? rulesName(), token, ...args],
        withinMs,
      )
      .then((reply) => {
        if (!Array.isArray(reply)) throw unavailable(call.subject.key, `it answers ${String(reply)}`)
        return reply as readonly Reply[]
      })

  /** Asks until the subject is open to the question; returns the answer, its kind first. */
  async function askUntilOpen(call: LimitCall, args: readonly string[]): Promise<readonly Reply[]> {
    const { subject, newcomerUntil } = call
    const token = call.token ?? newToken()
    const begun = generation
    const question = () => askUntilKnown(call, token, args, begun)
    if (newcomerUntil !== undefined) return heldUpQueues.ask(subject.key, newcomerUntil, question)
    for (let tries = 0; ; tries += 1) {
      const reply = await question()
      if (!isHeldUp(reply)) return reply
      await sleep(pauseMsOf(tries))
    }
  }

  /** Asks until the subject is known. `begun` is the generation of rules for which the question was made. */
  async function askUntilKnown(
    call: LimitCall,
    token: string,
    args: readonly string[],
    begun: number,
  ): Promise<readonly Reply[]> {
    const { subject, hasRules = false, deadlineMs = redis.deadlineMs } = call
    let endsAt = clock.monotonic() + deadlineMs
    const givesUpAt = endsAt + fillsMs
    let asked = call
    for (let tries = 0; ; tries += 1) {
      if (begun !== generation && hasRules) {
        // Nobody else fills it until the claim lapses.
        if (asked !== call) tellClaim('give up', subject, token)
        throw new RulesReplaced()
      }
      const reply = await send(asked, token, args, endsAt - clock.monotonic())
      if (String(reply[0]) !== '?') return reply
      // Told to fill it while a fill is under way here: that one has lost its claim, with all that was in Redis.
      const own = reply[1] === 1 ? fill(call, token) : undefined
      const filled = own ?? filling.get(subject.key) ?? sleep(pauseMsOf(tries))
      // A record that takes its time is no fault of the server, whichever process reads it.
      if (!(await isOverBy(clock, givesUpAt, filled))) throw unavailable(subject.key, 'it is being filled')
      const rules = await own
      asked = rules === undefined ? call : { ...call, operation: `!${call.operation}`, rules }
      endsAt = clock.monotonic() + deadlineMs
    }
  }

  async function answerOf(call: LimitQuestion, args: readonly string[]): Promise<Buffer> {
    const [kind, answer, ...added] = await askUntilOpen(call, [...args, ...(call.own ?? [])])
    if (String(kind) === 'held') throw new Withheld(Number(answer))
    if (String(kind) === 'none') throw new Withheld(undefined)
    call.added = added
    return answer as Buffer
  }

  /** Puts the question in the hands of the runner, which takes it before this returns. */
  async function ask<Answer>(
    call: LimitCall,
    question: (limits: Limits) => Promise<Answer>,
  ): Promise<LimitAnswer<Answer> | Unasked> {
    const own: LimitQuestion = { ...call, added: [] }
    asking = own
    const asked = question(limits)
    asking = undefined
    try {
      const answer = await asked
      return { answer, added: own.added }
    } catch (error) {
      const cause = error instanceof LimitsError ? (error.cause ?? error) : error
      if (cause instanceof Withheld) return { answer: undefined, heldAt: cause.heldAt, added: [] }
      throw cause
    }
  }

  /**
   * Fills a subject once: the token is that of the question that was told to. Where the record has nothing of it, the question
   * itself fills it when it is asked again, under the rules that are returned: nearly all subjects are recipients to whom
   * nothing was sent yet.
   */
  function fill({ subject, operation }: LimitCall, token: string): Promise<string | undefined> {
    const endRenewal = keepClaim(() => tellClaim('keep', subject, token), renewal)
    const work = factsOf(subject, token)
      .then(async ({ facts, rules }) => {
        if (operation === 'reserve' && isNothing(facts)) return rules
        await restore(subject, token, facts, rules)
        return undefined
      })
      .finally(() => {
        endRenewal()
        if (filling.get(subject.key) === work) filling.delete(subject.key)
      })
    work.catch((error: unknown) => onError('fill the limits of a subject', error))
    filling.set(subject.key, work)
    return work
  }

  /** Reads the facts of a subject, and names the rules under which they were read. */
  async function factsOf(
    subject: Subject,
    token: string,
  ): Promise<{ readonly facts: RecoveredSubject; readonly rules: string }> {
    try {
      for (;;) {
        // Facts that were read under other rules are dropped and read again.
        const [begun, rules] = [generation, rulesName()]
        const facts = await recover(subject)
        if (begun === generation && rules === rulesName()) return { facts, rules }
      }
    } catch (error) {
      tellClaim('give up', subject, token)
      throw error
    }
  }

  /** Renews the claim to fill a subject, or gives it up: the next question need not wait until it lapses. */
  function tellClaim(operation: 'keep' | 'give up', subject: Subject, token: string): void {
    const call = { operation, subject }
    void send(call, newToken(), [...unasked(''), token], redis.deadlineMs).catch(() => undefined)
  }

  async function restore(
    subject: Subject,
    token: string,
    facts: RecoveredSubject,
    rules: string,
  ): Promise<void> {
    const { fingerprints, waitlist, begun = [], isOutdated = false } = facts
    const known = new Set(facts.entries.map(({ id }) => id))
    const entries =
      facts.entries.length > 0
        ? facts.entries
        : [{ id: keepingId, at: clock.now(), fired: true, streams: [] }]
    const call = {
      operation: 'fill',
      subject,
      rules,
      token: newToken(),
      // A long record takes its time on the way and in the script: 0.1 ms more for each entry.
      deadlineMs: redis.deadlineMs + Math.ceil(entries.length / 10),
      own: [
        token,
        JSON.stringify(waitlist.filter((id) => !known.has(id))),
        JSON.stringify(fingerprints.map(({ fingerprint, id, at }) => [fingerprint, id, at])),
        isOutdated ? (outdated?.hasMovedUp(subject) === true ? '2' : '1') : '0',
        ...unlimited,
        JSON.stringify(begun),
      ],
    }
    const { added } = await ask(call, (limits) => limits.restore(subject.key, entries))
    if (added[0] === 1) onOutdated(subject, call.token)
    else if (added[0] === 2) outdated?.putOff(subject)
  }

  return {
    newToken,
    ask,
    async run(call) {
      const [, ...rest] = await askUntilOpen(call, call.own ?? [])
      return rest
    },
    renew() {
      generation += 1
      heldUpQueues.renew()
    },
  }
}

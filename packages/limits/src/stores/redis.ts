/**
 * The state of the limiter in Redis: one key per subject, one script, one round trip per question, the server's
 * time. The script decides and writes; the decision that the caller reads is drawn up here from the state that the
 * script met. A question that is not answered by its deadline ends as the options say, and may still count later.
 */
import { checkClock, checkOptions } from '../calls.ts'
import type { Decision } from '../decision.ts'
import { checkWhole, isUnavailable, LimitsError } from '../errors.ts'
import type { Question, Store } from '../store.ts'
import { isUnknownScript, type RedisClient, scriptRunner } from './redis-client.ts'
import { createDeadline } from './redis-deadline.ts'
import { createFallback, type OnUnavailable } from './redis-fallback.ts'
import { keyOf } from './redis-key.ts'
import { type Bytes, readBlock, readDecision } from './redis-reply.ts'
import { script, scriptSha } from './redis-script.ts'
import {
  boundedTerms,
  checkInstant,
  isPlain,
  letters,
  writePlan,
  writeQuestion,
  writeTerms,
} from './redis-wire.ts'

export interface RedisStoreOptions {
  /**
   * Stands before every key; a key is `<prefix>{<subject>}`, so that in a cluster the subject alone gives the slot;
   * one that begins with `}` is written otherwise.
   *
   * @defaultValue 'sluice:'
   */
  readonly prefix?: string
  /**
   * How long a call may take, ms. What is not answered by then may still count in Redis, which errs on the safe side.
   *
   * @defaultValue 50
   */
  readonly deadlineMs?: number
  /**
   * The answer to a question that Redis does not answer: `throw` a LimitsError (`STORE_UNAVAILABLE`,
   * `STORE_NOT_READY`, `STORE_READ_ONLY`), `admit` it
   * uncounted, `refuse` it for a second, or decide in this process by a `share` of every limit, rounded down, so that
   * n processes with a share of 1/n together keep it. `cancel`, `block`, `restore`, `forget` and `has`
   * throw in any case, and so does a key that holds something else (`STORE_STATE_INVALID`).
   *
   * @defaultValue 'throw'
   */
  readonly onUnavailable?: OnUnavailable
  /** Told of every call that Redis did not answer, whatever was answered in its place. */
  readonly onError?: (error: LimitsError) => void
  /**
   * How long what counted is kept at least, ms; never shorter than the longest window that was asked. Longer lets a
   * window grow later and be right at once, at the price of that memory for each subject.
   *
   * @defaultValue 0: a key goes when the longest window that it was asked with is over, an eighth later at most
   */
  readonly retentionMs?: number
  /**
   * Up to how many bytes a subject with bookings or ids is one packed string, 64 or more; above it is a hash of
   * segments, of which a call reads and writes only what it needs. What is only taken from stays a string at any
   * length. The same for everybody who shares the subjects.
   *
   * @defaultValue 8192, about where both cost the same
   */
  readonly packedMaxBytes?: number
  /**
   * Epoch milliseconds in place of the server's clock, for tests: clients' clocks differ.
   *
   * @defaultValue the server's `TIME`
   */
  readonly now?: () => number
}

/** Reads '1' and '0'. */
const isOne = (reply: Bytes): boolean => reply[0] === 0x31

/** The same number stands in the script. */
const packedMaxBytesDefault = 8_192

/**
 * State in Redis 6.2 or later, or Valkey, over the user's own client, which stays the user's to close.
 *
 * @throws LimitsError `INVALID_ARGUMENT` for a client that is not known, or options that make no sense
 */
export function redisStore(client: RedisClient, options: RedisStoreOptions = {}): Store {
  checkOptions(
    options,
    'prefix',
    'deadlineMs',
    'onUnavailable',
    'onError',
    'retentionMs',
    'packedMaxBytes',
    'now',
  )
  const { prefix = 'sluice:', deadlineMs = 50, onUnavailable = 'throw', onError } = options
  const { retentionMs = 0, packedMaxBytes = packedMaxBytesDefault, now } = options
  if (typeof prefix !== 'string') throw new LimitsError('INVALID_ARGUMENT', 'prefix is a text')
  checkWhole('retentionMs', retentionMs, 0)
  checkWhole('packedMaxBytes', packedMaxBytes, 64)
  checkClock(now)
  const run = scriptRunner(client, { script, scriptSha })
  const within = createDeadline(client, deadlineMs, onError)
  const fallback = createFallback(onUnavailable)
  const clock = (): string => (now === undefined ? '' : String(Math.floor(now())))
  const kept = [String(retentionMs), String(packedMaxBytes)]
  const isDefault = retentionMs === 0 && packedMaxBytes === packedMaxBytesDefault

  function ask<T>(subject: string, args: string[], read: (reply: Bytes) => T): Promise<T> {
    const name = keyOf(prefix, subject)
    return within(run('hash', name, args), read, (cause) =>
      isUnknownScript(cause) ? runByText(name, args) : undefined,
    )
  }

  /** Many calls may find the script gone: one brings the text, those behind it on the same wire find it there. */
  let texts = 0
  async function runByText(name: string, args: string[]): Promise<Bytes> {
    if (texts > 0) {
      try {
        return await run('hash', name, args)
      } catch (cause) {
        // Another node of a cluster, or flushed again.
        if (!isUnknownScript(cause)) throw cause
      }
    }
    texts += 1
    try {
      return await run('text', name, args)
    } finally {
      texts -= 1
    }
  }

  function decide(question: Question): Promise<Decision> {
    const { plan, id = '', subject } = question
    const written = writePlan(plan)
    const args = [writeQuestion(question, written, written.bytesMax > packedMaxBytes), written.header]
    if (isDefault && isPlain(question)) {
      if (now !== undefined) args.push(clock())
      return ask(subject, args, (reply) => readDecision(question, reply))
    }
    const bounded = { ...question, terms: boundedTerms(question.terms) }
    args.push(clock(), id, writeTerms(bounded.terms), ...kept)
    return ask(subject, args, (reply) => readDecision(bounded, reply))
  }

  async function answer(question: Question): Promise<Decision> {
    try {
      return await decide(question)
    } catch (error) {
      if (fallback === undefined || !isUnavailable(error)) throw error
      return fallback(question)
    }
  }

  /** Does to a key what is no question of a limiter. */
  function tend<T>(
    what: keyof typeof letters,
    subject: string,
    id: string,
    body: string,
    read: (reply: Bytes) => T,
  ): Promise<T> {
    return ask(subject, [letters[what], '', clock(), id, body, ...kept], read)
  }

  const decideOne = fallback === undefined ? decide : answer
  return {
    decide: Object.assign(async (questions: readonly Question[]) => Promise.all(questions.map(decideOne)), {
      one: decideOne,
    }),
    cancel: (places) => Promise.all(places.map(({ subject, id }) => tend('cancel', subject, id, '', isOne))),
    async restore(batches) {
      await Promise.all(
        batches.map(({ subject, entries }) => {
          const rows = entries.map(({ id, at, fired, streams, weight = 1 }) => {
            checkInstant(`entry '${id}'`, at)
            return [id, at, fired, weight, [...new Set(streams)].sort()]
          })
          return tend('restore', subject, '', JSON.stringify(rows), isOne)
        }),
      )
    },
    block: (blocks) =>
      Promise.all(blocks.map(({ subject, ms }) => tend('block', subject, '', String(ms), readBlock))),
    async forget(subjects) {
      await Promise.all(subjects.map((subject) => tend('forget', subject, '', '', isOne)))
    },
    has: (subjects) => Promise.all(subjects.map((subject) => tend('has', subject, '', '', isOne))),
  }
}

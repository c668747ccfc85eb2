/**
 * Idempotency-Key: a repeated request gets the answer of the first. A repetition is found in three places:
 * among the requests in progress (ports/fleet.ts), on record, and in the commit itself, which refuses a key
 * that another process has just written.
 */
import type { FastifyRequest } from 'fastify'
import { SluiceError } from '../errors.ts'
import type { Once } from '../ports/fleet.ts'
import type { AnswerKey, Clock, Store, StoredAnswer } from '../ports.ts'
import type { Ledger } from '../stages.ts'
import { hashOf } from './body-parser.ts'
import type { Identity } from './identity.ts'
import { invalidRequest } from './validation.ts'

const keyMax = 255

/** An answer that is ready to be sent, and to be stored for a repetition. */
export interface Answer {
  readonly status: number
  readonly body: string
  /** True for an answer from the record. */
  readonly replayed?: boolean
}

/** Turns an answer into the form that the commit stores. */
export type Keep = (answer: Answer) => StoredAnswer

export interface Idempotency {
  /**
   * Runs the work once for a key. Throws IDEMPOTENCY_MISMATCH, IDEMPOTENCY_IN_PROGRESS, and INVALID_REQUEST for
   * an invalid key. Work that accepts a notification passes `keep` of its answer to the commit that accepts it.
   */
  once(request: FastifyRequest, work: (keep: Keep | undefined) => Promise<Answer>): Promise<Answer>
}

export function createIdempotency(options: {
  readonly store: Pick<Store, 'answer'>
  readonly once: Once
  readonly clock: Clock
}): Idempotency {
  const { store, once, clock } = options

  async function recorded(key: AnswerKey, requestHash: string): Promise<Answer | undefined> {
    const stored = await store.answer(key)
    if (stored === undefined) return undefined
    if (stored.requestHash !== requestHash) throw mismatch()
    return { status: stored.status, body: stored.body, replayed: true }
  }

  async function guarded(
    key: AnswerKey,
    requestHash: string,
    work: (keep: Keep | undefined) => Promise<Answer>,
  ): Promise<Answer> {
    const known = await recorded(key, requestHash)
    if (known !== undefined) return known
    try {
      return await work(({ status, body }) => ({ ...key, requestHash, status, body, createdAt: clock.now() }))
    } catch (error) {
      if (!(error instanceof SluiceError)) throw error
      // Another process may have accepted the same request meanwhile, into the last place of a queue for example.
      const answer = await recorded(key, requestHash)
      if (answer === undefined) throw error
      return answer
    }
  }

  async function onceFor(
    given: string | string[],
    request: FastifyRequest,
    work: (keep: Keep | undefined) => Promise<Answer>,
  ): Promise<Answer> {
    const key = answerKey(request, readKey(given))
    const requestHash = request.received?.hash() ?? hashOf(Buffer.alloc(0))
    const beginning = once.begin(key, requestHash)
    const begun = beginning instanceof Promise ? await beginning : beginning
    if (begun !== 'new') {
      // The mark may be one of a process that has died after its commit, or of another body that is about to be refused.
      const answer = await recorded(key, requestHash)
      if (answer !== undefined) return answer
      if (begun === 'mismatch') throw mismatch()
      throw new SluiceError(
        'IDEMPOTENCY_IN_PROGRESS',
        'The first request with this key is still being worked on.',
      )
    }
    try {
      return await guarded(key, requestHash, work)
    } finally {
      const ending = once.end(key)
      if (ending instanceof Promise) await ending
    }
  }

  return {
    once(request, work) {
      const given = request.headers['idempotency-key']
      return given === undefined ? work(undefined) : onceFor(given, request, work)
    },
  }
}

/**
 * Stores the answer to work that was done before.
 * @throws IDEMPOTENCY_IN_PROGRESS where another process has stored one meanwhile, which is the answer then
 */
export async function storeBehind(ledger: Pick<Ledger, 'commit'>, answer: StoredAnswer): Promise<void> {
  if ((await ledger.commit({ answer })).applied) return
  throw new SluiceError('IDEMPOTENCY_IN_PROGRESS', 'A request with this Idempotency-Key was just answered.')
}

function answerKey(request: FastifyRequest, key: string): AnswerKey {
  const { tenant, module }: Identity = request.caller
  return { tenant, module, method: request.method, path: request.routeOptions.url ?? request.url, key }
}

/**
 * Reads the key of a request, also where no answer would be stored under it: an empty key is a mistake
 * everywhere.
 */
export function readKey(value: string | string[]): string {
  if (typeof value === 'string' && value.length <= keyMax && /^[\x20-\x7e]+$/.test(value)) return value
  throw invalidRequest([
    { path: '/Idempotency-Key', message: `must be 1 to ${keyMax} printable ASCII characters` },
  ])
}

function mismatch(): SluiceError {
  return new SluiceError(
    'IDEMPOTENCY_MISMATCH',
    'This key came with another body before. Use a new key for a new request.',
  )
}

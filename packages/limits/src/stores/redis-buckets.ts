/** Token buckets in Redis: one key a bucket, one script, one round trip, the server's time. */

import { type BucketStore, decide } from '../buckets.ts'
import { checkOptions } from '../calls.ts'
import { LimitsError } from '../errors.ts'
import { msgpackReader } from './msgpack.ts'
import { script, scriptSha } from './redis-bucket-script.ts'
import { isUnknownScript, type RedisClient, scriptRunner } from './redis-client.ts'
import { createDeadline } from './redis-deadline.ts'
import { keyOf } from './redis-key.ts'
import type { Bytes } from './redis-reply.ts'

export interface RedisBucketsOptions {
  /**
   * Stands before every key; a key is `<prefix>{<key>}`.
   *
   * @defaultValue 'sluice:bucket:'
   */
  readonly prefix?: string
  /**
   * How long a call may take, ms. What is not answered by then may still count in Redis, which errs on the safe side.
   *
   * @defaultValue 50
   */
  readonly deadlineMs?: number
  /** Told of every call that Redis did not answer. */
  readonly onError?: (error: LimitsError) => void
  /**
   * Epoch milliseconds in place of the server's clock, for tests.
   *
   * @defaultValue the server's `TIME`
   */
  readonly now?: () => number
}

const dropping = ['0', '0', '0', '0', 'd', '']

/**
 * Token buckets in Redis 6.2 or later, or Valkey, over the user's own client, which stays the user's to close.
 *
 * @throws LimitsError `INVALID_ARGUMENT` for a client that is not known, or options that make no sense
 */
export function redisBuckets(client: RedisClient, options: RedisBucketsOptions = {}): BucketStore {
  const {
    prefix = 'sluice:bucket:',
    deadlineMs = 50,
    onError,
    now,
  } = checkOptions(options, 'prefix', 'deadlineMs', 'onError', 'now')
  if (typeof prefix !== 'string') throw new LimitsError('INVALID_ARGUMENT', 'prefix is a text')
  if (now !== undefined && typeof now !== 'function')
    throw new LimitsError('INVALID_ARGUMENT', 'now is a function that returns epoch milliseconds')
  const run = scriptRunner(client, { script, scriptSha })
  const within = createDeadline(client, deadlineMs, onError)
  const clock = (): string => (now === undefined ? '' : String(Math.floor(now())))

  function send<T>(key: string, args: string[], read: (reply: Bytes) => T): Promise<T> {
    const name = keyOf(prefix, key)
    return within(run('hash', name, args), read, (cause) =>
      isUnknownScript(cause) ? run('text', name, args) : undefined,
    )
  }

  return {
    draw(key, rate, cost, counts) {
      const { capacity, refill, windowMs } = rate
      const args = [capacity, refill, windowMs, cost, counts ? 1 : 0].map(String)
      return send(key, [...args, clock()], (reply) => {
        const reader = msgpackReader(reply)
        const at = reader.number()
        return decide(reader.number(), rate, cost, at, counts)
      })
    },
    reset: (key) => send(key, dropping, () => undefined),
  }
}

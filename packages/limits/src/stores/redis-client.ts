/**
 * The user's own Redis client, whichever it is, as the one thing that the store needs: to run the script on a key
 * and get bytes. A single node, Sentinel and Cluster look the same from here, because a call names one key.
 */
import { LimitsError } from '../errors.ts'
import { script, scriptSha } from './redis-script.ts'
import type { Bytes } from './redis-wire.ts'

/** ioredis 5 or later: `new Redis()` or `new Cluster()`. `enableAutoPipelining: true` is what makes it fast. */
export interface IoredisClient {
  evalshaBuffer(sha: string, keys: number, ...args: string[]): Promise<unknown>
  evalBuffer?(script: string, keys: number, ...args: string[]): Promise<unknown>
}

interface Evaluation {
  readonly keys: string[]
  readonly arguments: string[]
}

/** node-redis 5 or later: `createClient()`, `createCluster()`, `createSentinel()`, `createClientPool()`, connected. */
export interface NodeRedisClient {
  // biome-ignore lint/suspicious/noExplicitAny: its own types map replies by types of their own
  withTypeMapping(mapping: any): {
    evalSha(sha: string, options: Evaluation): Promise<unknown>
    eval(script: string, options: Evaluation): Promise<unknown>
  }
}

export type RedisClient = IoredisClient | NodeRedisClient

/** Runs the script by its hash, and by its text where the server does not know it (yet, or any more). */
export type RunScript = (key: string, args: string[]) => Promise<Bytes>

/** RESP's `$`, whose replies shall be bytes. */
const bulkString = 36

/** @throws LimitsError `INVALID_ARGUMENT` for what is no client that is known */
export function scriptRunner(client: RedisClient): RunScript {
  if (typeof client === 'object' && client !== null) {
    if ('evalshaBuffer' in client && typeof client.evalshaBuffer === 'function') return overIoredis(client)
    if ('withTypeMapping' in client && typeof client.withTypeMapping === 'function') return overNodeRedis(client)
  }
  const known = 'an ioredis client (5 or later) or a connected node-redis client (5 or later)'
  throw new LimitsError('INVALID_ARGUMENT', `redisStore(client) wants ${known}`)
}

function overIoredis(client: IoredisClient): RunScript {
  const { evalBuffer } = client
  if (typeof evalBuffer !== 'function')
    throw new LimitsError('INVALID_ARGUMENT', 'this ioredis client has no evalBuffer')
  return (key, args) =>
    client.evalshaBuffer(scriptSha, 1, key, ...args).catch((error: unknown) => {
      if (isUnknownScript(error)) return evalBuffer.call(client, script, 1, key, ...args)
      throw error
    }) as Promise<Bytes>
}

function overNodeRedis(client: NodeRedisClient): RunScript {
  const inBytes = client.withTypeMapping({ [bulkString]: Buffer })
  return (key, args) => {
    const evaluation = { keys: [key], arguments: args }
    return inBytes.evalSha(scriptSha, evaluation).catch((error: unknown) => {
      if (isUnknownScript(error)) return inBytes.eval(script, evaluation)
      throw error
    }) as Promise<Bytes>
  }
}

function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

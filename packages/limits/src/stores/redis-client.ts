/**
 * The user's own Redis client, whichever it is, as the one thing that the store needs: to run the script on a key
 * and get bytes. A single node, Sentinel and Cluster look the same from here, because a call names one key.
 */
import { LimitsError, type LimitsErrorCode } from '../errors.ts'
import type { Bytes } from './redis-reply.ts'

// The two clients are recognised by what only they have; their own types of it differ from version to version.

/** ioredis 5 or later: `new Redis()` or `new Cluster()`. `enableAutoPipelining: true` is what makes it fast. */
export interface IoredisClient {
  evalsha(...args: never[]): unknown
}

/** node-redis 5 or later, connected: `createClient()`, `createCluster()`, `createSentinel()`, `createClientPool()`. */
export interface NodeRedisClient {
  withTypeMapping(mapping: never): unknown
}

/**
 * A connection of your own, for example one that runs the script within another. It is given the script once, and runs it
 * with one key and its arguments; the answer comes as a `Buffer`.
 */
export interface ScriptClient {
  runnerOf(script: string): (key: string, args: string[]) => Promise<Uint8Array>
}

export type RedisClient = IoredisClient | NodeRedisClient | ScriptClient

/** A script as scripts/build/lua.ts writes it. */
export interface ScriptSource {
  readonly script: string
  readonly scriptSha: string
}

/** Runs the script, by its hash or by its text: a server may not know the hash yet, or not any more. */
export type RunScript = (by: 'hash' | 'text', key: string, args: string[]) => Promise<Bytes>

interface Ioredis {
  evalshaBuffer(sha: string, keys: number, ...args: string[]): Promise<Bytes>
  evalBuffer(script: string, keys: number, ...args: string[]): Promise<Bytes>
}

interface NodeRedis {
  withTypeMapping(mapping: Readonly<Record<number, unknown>>): NodeRedisEvaluator
}

interface NodeRedisEvaluator {
  evalSha(sha: string, evaluation: Evaluation): Promise<Bytes>
  eval(script: string, evaluation: Evaluation): Promise<Bytes>
}

interface Evaluation {
  readonly keys: string[]
  readonly arguments: string[]
}

/** RESP's `$`, whose replies shall be bytes. */
const bulkString = 36

/** @throws LimitsError `INVALID_ARGUMENT` for what is no client that is known */
export function scriptRunner(client: RedisClient, source: ScriptSource): RunScript {
  if (has<Ioredis>(client, 'evalshaBuffer') && has<Ioredis>(client, 'evalBuffer'))
    return overIoredis(client, source)
  if (has<NodeRedis>(client, 'withTypeMapping')) return overNodeRedis(client, source)
  if (has<ScriptClient>(client, 'runnerOf')) {
    const run = client.runnerOf(source.script)
    return (_, key, args) => run(key, args) as Promise<Bytes>
  }
  throw new LimitsError(
    'INVALID_ARGUMENT',
    'a Redis client is wanted here: ioredis, or node-redis connected, 5 or later',
  )
}

function overIoredis(client: Ioredis, { script, scriptSha }: ScriptSource): RunScript {
  return (by, key, args) =>
    by === 'hash'
      ? client.evalshaBuffer(scriptSha, 1, key, ...args)
      : client.evalBuffer(script, 1, key, ...args)
}

function overNodeRedis(client: NodeRedis, { script, scriptSha }: ScriptSource): RunScript {
  const inBytes = client.withTypeMapping({ [bulkString]: Buffer })
  return (by, key, args) => {
    const evaluation = { keys: [key], arguments: args }
    return by === 'hash' ? inBytes.evalSha(scriptSha, evaluation) : inBytes.eval(script, evaluation)
  }
}

/**
 * How a client stands: both tell it, a cluster of node-redis only whether it was opened. A client that has ended will
 * not connect again by itself.
 */
export function standingOf(client: RedisClient): 'ready' | 'connecting' | 'ended' {
  const { status, isReady, isOpen } = client as {
    readonly status?: string
    readonly isReady?: boolean
    readonly isOpen?: boolean
  }
  if (status === 'end' || isOpen === false) return 'ended'
  return (status === undefined ? (isReady ?? true) : status === 'ready') ? 'ready' : 'connecting'
}

/** The messages of both clients for a call without a connection. */
const unconnected = /^(The client is (closed|offline)|Connection is closed|Stream isn't writeable|Cluster is)/

/** Another type, another value, or bytes over which the script stumbled: Lua's own errors carry no `@`. */
const foreign = /\bWRONGTYPE\b|\bINVALIDSTATE\b|[^@]user_script:\d+: /

/** The code of an error with which the client ended a call. */
export function codeOf(cause: unknown, wasReady: boolean, client: RedisClient): LimitsErrorCode {
  const message = cause instanceof Error ? cause.message : ''
  if (/\bREADONLY\b/.test(message)) return 'STORE_READ_ONLY'
  if (foreign.test(message)) return 'STORE_STATE_INVALID'
  const isNotReady = unconnected.test(message) && (!wasReady || standingOf(client) === 'ended')
  return isNotReady ? 'STORE_NOT_READY' : 'STORE_UNAVAILABLE'
}

/** Tells whether the server does not know the hash of the script. */
export function isUnknownScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

function has<Client>(client: unknown, method: keyof Client): client is Client {
  return typeof (client as Client | null | undefined)?.[method] === 'function'
}

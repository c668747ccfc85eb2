/**
 * Requests in progress of a fleet, in Redis. A mark names the process that works on a request; it lapses with a lease, which
 * the process renews. The mark is a hint: where Redis is away, lost its data, or its answer is lost, two processes may
 * work on one request, and the commit of the store refuses the second. So no method of this adapter rejects. What
 * this process works on itself it knows in any case.
 */
import { createHash } from 'node:crypto'
import type { Once, OnceKey } from '../../../ports/fleet.ts'
import { createMemoryOnce } from '../../one-process.ts'
import type { RedisState, StateKey } from './redis-state.ts'
import { onceScript } from './scripts.ts'

export interface RedisOnceOptions {
  readonly redis: RedisState
  /** The name of this process, as no other process has it. */
  readonly member: string
  /**
   * A mark of a process that has died stands so long, ms: repetitions of its requests are `busy` until then.
   * @defaultValue 12000: as long as others take to declare it dead
   */
  readonly leaseMs?: number | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

export interface RedisOnce extends Once {
  /** Renews no lease any more, and ends no request later. */
  close(): void
}

interface Mark {
  readonly key: StateKey
  readonly owner: string
  readonly requestHash: string
  /** True once Redis has said that it stands there. */
  isSet?: boolean
}

/** Between two tries to end a request while Redis does not answer, ms. */
const againMs = 1_000

export function createRedisOnce(options: RedisOnceOptions): RedisOnce {
  const { redis, member, leaseMs = 12_000, onError } = options
  const own = createMemoryOnce()
  /** The marks of this process: as many as it has requests in progress. */
  const marks = new Map<string, Mark>()
  let serial = 0
  let isClosed = false

  const ask = (operation: 'begin' | 'keep' | 'end', { key, owner, requestHash }: Mark) =>
    redis.ask(onceScript, key, [operation, owner, requestHash, String(leaseMs)])

  /** Tells of a failure and goes on: the store decides. */
  const missed = (error: unknown): undefined => {
    onError?.(error)
    return undefined
  }

  /**
   * Ends a request, again and again where Redis does not answer, until its mark has lapsed: a mark that is left refuses the
   * repetitions of a request that has failed. One that Redis may never have set is not worth it: there are as many of
   * them as requests while it is away.
   */
  function endMark(mark: Mark, leftMs = leaseMs): void {
    ask('end', mark).catch((error: unknown) => {
      missed(error)
      if (isClosed || mark.isSet !== true || leftMs < 0) return
      setTimeout(() => endMark(mark, leftMs - againMs), againMs).unref()
    })
  }

  const renewing = setInterval(() => {
    for (const mark of marks.values()) ask('keep', mark).catch(missed)
  }, leaseMs / 3)
  renewing.unref()

  return {
    async begin(key, requestHash) {
      const known = await own.begin(key, requestHash)
      if (known !== 'new') return known
      serial += 1
      const name = nameOf(key)
      const mark: Mark = {
        key: { subject: `k/${name}`, name: '' },
        owner: `${member}:${serial}`,
        requestHash,
      }
      const begun = await ask('begin', mark).catch(missed)
      if (begun === 'busy' || begun === 'mismatch') {
        await own.end(key)
        return begun
      }
      mark.isSet = begun === 'new'
      marks.set(name, mark)
      return 'new'
    },
    async end(key) {
      const name = nameOf(key)
      const mark = marks.get(name)
      marks.delete(name)
      await own.end(key)
      // Not awaited: the answer of the request does not wait for it, and repetitions find that answer on record.
      if (mark !== undefined) endMark(mark)
    },
    close() {
      isClosed = true
      clearInterval(renewing)
    },
  }
}

const nameOf = ({ tenant, module, method, path, key }: OnceKey): string =>
  createHash('sha256')
    .update(JSON.stringify([tenant, module, method, path, key]))
    .digest('base64url')

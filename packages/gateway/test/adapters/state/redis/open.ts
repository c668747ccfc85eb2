/** Opens the state on the Redis or the Redis Cluster of the tests, each time with keys of its own. */
import process from 'node:process'
import { after } from 'node:test'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { createRedisClient } from '../../../../src/adapters/state/redis/redis-client.ts'
import {
  createRedisState,
  type RedisState,
  type RedisStateOptions,
} from '../../../../src/adapters/state/redis/redis-state.ts'

export const engines = ['redis', 'redis-cluster'] as const
export type Engine = (typeof engines)[number]

const urls: Readonly<Record<Engine, string>> = {
  redis: process.env.SLUICE_TEST_REDIS ?? '',
  'redis-cluster': (process.env.SLUICE_TEST_REDIS_CLUSTER ?? '')
    .split(',')
    .map((url, index) =>
      index === 0 ? url.replace('redis:', 'redis-cluster:') : url.replace('redis://', ''),
    )
    .join(','),
}

let opened = 0

/** A prefix that no other test has. */
export function newPrefix(): string {
  opened += 1
  return `${process.pid}:${opened}:`
}

/** Opens the state, which its user closes. The tests ask for right answers, not for quick ones. */
export const stateAt = (engine: Engine, options: Partial<RedisStateOptions> = {}): RedisState =>
  createRedisState({
    url: urls[engine],
    registrations: createMemoryRegistrations(),
    clock: createSystemClock(),
    deadlineMs: 20_000,
    prefix: newPrefix(),
    ...options,
  })

/** Opens the state; it is closed behind the tests of the file. */
export function openRedis(engine: Engine, options: Partial<RedisStateOptions> = {}): RedisState {
  const redis = stateAt(engine, options)
  after(() => redis.close())
  return redis
}

/** Sends commands to the Redis or the Redis Cluster of the tests, beside the state. */
export async function openAdmin(engine: Engine) {
  const { SLUICE_TEST_REDIS = '', SLUICE_TEST_REDIS_CLUSTER = '' } = process.env
  const nodes = engine === 'redis' ? [SLUICE_TEST_REDIS] : SLUICE_TEST_REDIS_CLUSTER.split(',')
  const clients = await Promise.all(nodes.map((url) => createRedisClient({ url }).connect()))
  return {
    close(): void {
      for (const client of clients) client.destroy()
    },
    /** Runs a script over a key: the node that has its slot runs it, the others refuse. */
    run: (script: string, key: string) =>
      Promise.any(clients.map((client) => client.eval(script, { keys: [key] }))),
    /** Removes keys of one subject, as a loss of them does: the node that has its slot takes them, the others refuse. */
    async remove(...keys: readonly string[]): Promise<void> {
      const answers = await Promise.allSettled(clients.map((client) => client.del([...keys])))
      if (answers.some(({ status }) => status === 'fulfilled')) return
      throw new AggregateError(answers.map((answer) => (answer as PromiseRejectedResult).reason))
    },
  }
}

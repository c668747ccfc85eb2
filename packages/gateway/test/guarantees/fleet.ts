/** Two gateways as processes of their own over one PostgreSQL and one Redis, and a provider that keeps every call. */
import { randomBytes } from 'node:crypto'
import process from 'node:process'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, createSite, type SinkProcess, type Site, startSink } from '../child.ts'
import { fleetProgram } from '../product.ts'
import { schemaUrl } from '../store/postgres/database.ts'

export interface FleetOptions {
  readonly name: string
  readonly count?: number
  /** Tenants by their id; all others are unlimited. */
  readonly tenants?: Readonly<Record<string, object>>
  /** @defaultValue the Redis of the tests */
  readonly redis?: string
  /** The Redis of the gateway that is started as the n-th, from 0. @defaultValue `redis` */
  readonly redisOf?: (n: number) => string
  /** The user of Redis, with its password, of the gateway that is started as the n-th, from 0. @defaultValue none */
  readonly redisUserOf?: (n: number) => string | undefined
  /** The longest time that a question to Redis may take. @defaultValue 1s */
  readonly deadline?: string
  /** The width of a slot of the accounts, of the gateway that is started as the n-th, from 0. @defaultValue 20ms */
  readonly slotOf?: (n: number) => string
  readonly policy?: object
  readonly config?: object
  /** The rate of the account that both call. @defaultValue unlimited */
  readonly rate?: readonly string[]
  /** Calls of a gateway that may be under way to it at once. @defaultValue 200 */
  readonly concurrency?: number
  /** How long one call may take. @defaultValue 15s */
  readonly timeout?: string
  /** The environment of the gateway that is started as the n-th, from 0. @defaultValue none */
  readonly envOf?: (n: number) => Readonly<Record<string, string>>
  /** @defaultValue 1000 ms: a killed process is found dead after some 7 s */
  readonly beatMs?: number
}

export interface TestFleet {
  readonly sites: readonly Site[]
  readonly sink: SinkProcess<'http'>
  /** The address of the Redis. */
  readonly redis: string
  /** Posts a notification to a recipient of its own at one of the gateways. */
  post(
    at: number,
    options?: { readonly tenant?: string; readonly body?: object; readonly key?: string },
  ): Promise<Answer>
}

/** One call that the provider received. */
export interface Call {
  readonly at: number
  readonly id: string
  readonly tenant: string
  readonly recipient: string
}

export async function startFleet(t: Pick<TestContext, 'after'>, options: FleetOptions): Promise<TestFleet> {
  const {
    name,
    count = 2,
    tenants = {},
    policy,
    config,
    rate = ['unlimited'],
    concurrency = 200,
    timeout = '15s',
    deadline = '1s',
    beatMs = 1_000,
  } = options
  const redis = options.redis ?? process.env.SLUICE_TEST_REDIS!
  const sink = await startSink(t, 'http')
  const prefix = `${name}:${randomBytes(4).toString('hex')}:`
  const url = sink.url.replace(/\/$/, '')
  const sites = await Promise.all(
    Array.from({ length: count }, (_, n) =>
      createSite(t, {
        program: fleetProgram,
        ...(policy === undefined ? {} : { policy }),
        config: {
          store: schemaUrl(name),
          state: `${withUser(options.redisOf?.(n) ?? redis, options.redisUserOf?.(n))}?prefix=${prefix}&deadline=${deadline}&slot=${options.slotOf?.(n) ?? '20ms'}`,
          tenants: {
            default: { rate: 'unlimited', modules: 'unlimited', reads: 'unlimited', writes: 'unlimited' },
            ...tenants,
          },
          pools: {
            webhook: {
              provider: 'webhook',
              timeout,
              accounts: [
                { id: 'main', url: `${url}/in`, rate: rate.length === 1 ? rate[0] : rate, concurrency },
              ],
            },
          },
          ...config,
        },
        env: { SLUICE_TEST_BEAT_MS: String(beatMs), ...options.envOf?.(n) },
      }),
    ),
  )
  // One after the other: the first makes the schema.
  for (const site of sites) await site.start()
  let serial = 0
  return {
    sites,
    sink,
    redis,
    post(at, { tenant = 'default', body = {}, key } = {}) {
      serial += 1
      const text = `Message ${serial}`
      const message = {
        recipient: { id: `r${serial}` },
        channel: 'webhook',
        content: { subject: text, text },
      }
      return sites[at]!.call(
        'POST',
        '/api/v1/notifications',
        { ...message, ...body },
        { 'x-tenant-id': tenant, ...(key === undefined ? {} : { 'idempotency-key': key }) },
      )
    },
  }
}

const withUser = (redis: string, user: string | undefined): string =>
  user === undefined ? redis : redis.replace('redis://', `redis://${user}@`)

/** Calls that were read already: a provider with 100,000 calls is asked for the new ones only. */
const read = new WeakMap<TestFleet, Promise<Call[]>>()

/** Reads all calls so far. */
export async function callsOf(fleet: TestFleet): Promise<readonly Call[]> {
  const reading = (read.get(fleet) ?? Promise.resolve([])).then(async (calls) => {
    const { requests } = await fleet.sink.dump(calls.length)
    for (const { at, headers, body } of requests) {
      const { tenant, recipient } = JSON.parse(body) as Pick<Call, 'tenant' | 'recipient'>
      calls.push({ at, id: String(headers['webhook-id']), tenant, recipient })
    }
    return calls
  })
  read.set(fleet, reading)
  return [...(await reading)]
}

/** Waits until the provider has that many calls of the tenant, no longer than the time, ms; returns the calls. */
export async function callsOfTenant(
  fleet: TestFleet,
  tenant: string,
  count: number,
  withinMs: number,
): Promise<readonly Call[]> {
  for (const until = performance.now() + withinMs; ; await sleep(250)) {
    const calls = (await callsOf(fleet)).filter((call) => call.tenant === tenant)
    if (calls.length >= count || performance.now() > until) return calls
  }
}

/** Runs the work for each number, at most so many at once. */
export async function inParallel<T>(
  count: number,
  atOnce: number,
  work: (n: number) => Promise<T>,
): Promise<readonly T[]> {
  const results: T[] = new Array(count)
  let next = 0
  await Promise.all(
    Array.from({ length: Math.min(atOnce, count) }, async () => {
      while (next < count) {
        const n = next
        next += 1
        results[n] = await work(n)
      }
    }),
  )
  return results
}

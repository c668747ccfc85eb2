/**
 * The limits of tenants and modules over all processes, in Redis: one script call for all notifications of a tenant. The
 * queues live there; this process keeps none of them, but the instant at which it has to ask for entries that moved up. A
 * lost queue is filled from the record under the next generation of its tenant.
 */
import { randomBytes } from 'node:crypto'
import type { Window } from '@sluice/limits'
import type {
  Promote,
  ThrottlePassed,
  ThrottlePlace,
  ThrottleState,
  WindowUse,
} from '../../../ports/tenants.ts'
import type { Clock } from '../../../ports.ts'
import type { Reply } from './redis-answers.ts'
import type { RedisState } from './redis-state.ts'
import { throttleScript } from './scripts.ts'
import { createTenantValue, type TenantAnswer } from './tenant-value.ts'
import { fillParts, type ThrottleEntries } from './throttle-fill.ts'

/** The record of the store from which a lost queue is filled. */
export interface ThrottleRecord {
  /**
   * Gives the queues of a tenant their next generation. Returns when every acceptance of an earlier one is on record or
   * refused, and from then on refuses them.
   */
  nextThrottleGeneration(tenant: string): Promise<number>
  /**
   * Reads the entries that have passed since, and those that wait in the order of acceptance, page by page. No turn is
   * written meanwhile: changes of earlier generations are on record or refused before.
   */
  entries(tenant: string, since: number): Promise<ThrottleEntries>
  /** Names the tenants that have waiting entries. */
  waitingTenants(): Promise<readonly string[]>
}

interface ThrottleRates {
  /** Windows over all modules of a tenant together; empty means unlimited. */
  readonly tenant: readonly Window[]
  /** Windows of each module. */
  readonly module: readonly Window[]
}

export interface RedisThrottleOptions {
  readonly redis: RedisState
  readonly record: ThrottleRecord
  readonly clock: Clock
  readonly ratesOf: (tenant: string) => ThrottleRates
  /** Every window is kept this much longer, ms. */
  readonly marginMs: number
  readonly onError?: ((what: string, error: unknown) => void) | undefined
}

/** The script says `never` so. */
const never = 2 ** 48 - 1
/** The tenants that are asked for their next promotion at once, at the start and after the end of a process. */
const tenantsTogether = 64
/** The most processes that have gone, the last ones, that are remembered. */
const goneMax = 64
/** Between two questions for entries to promote whose answer is missing, ms. */
const promoteAgainMs = 1_000

export interface RedisThrottle extends ThrottleState {
  /** Looks for entries that processes were to promote which have gone. */
  noteGone(members: readonly string[]): void
  /** Hears the newest generation of a tenant's queues on record. Queues of an earlier one are filled anew. */
  expect(tenant: string, generation: number): void
}

export function createRedisThrottle(options: RedisThrottleOptions): RedisThrottle {
  const { redis, record, clock, ratesOf, marginMs, onError } = options
  /** Names this process among those that decide the same notification at once: all names are of one length. */
  const own = randomBytes(6).toString('base64url')
  /** The next promotion of each tenant that has one, as far as this process has heard, with its timer. */
  const promotions = new Map<string, { readonly at: number; readonly disarm: () => void }>()
  /** Tenants whose last question for entries to promote had no answer: what it took is to be answered again. */
  const missed = new Set<string>()
  const gone = new Set<string>()
  const working = new Set<Promise<void>>()
  let promote: Promote | undefined
  let stopped = false

  const value = createTenantValue({
    redis,
    clock,
    script: throttleScript,
    name: 'throttle',
    read: readRecord,
    onError: (error) => onError?.('fill the throttle queues of a tenant', error),
  })

  const windowsOf = (windows: readonly Window[]) =>
    windows.map(({ max, windowMs }) => [max, windowMs + marginMs])

  function payloadOf(tenant: string, more: object): string {
    const rates = ratesOf(tenant)
    return JSON.stringify({ t: windowsOf(rates.tenant), m: windowsOf(rates.module), ...more })
  }

  async function readRecord(tenant: string): Promise<readonly string[]> {
    const rates = ratesOf(tenant)
    const keptMs =
      Math.max(0, ...[...rates.tenant, ...rates.module].map(({ windowMs }) => windowMs)) + marginMs
    const g = await record.nextThrottleGeneration(tenant)
    const entries = await record.entries(tenant, clock.now() - keptMs)
    const parts = fillParts(entries, { ...rates, marginMs }, clock.now())
    return parts.map(({ counted, waiting, full }, index) =>
      payloadOf(tenant, {
        g,
        k: keptMs,
        p: index,
        e: index === parts.length - 1 ? 1 : 0,
        s: full?.map((at) => Math.min(at, never)),
        counted,
        waiting: waiting.map(([id, module, dueAt, place]) => [
          id,
          module,
          Math.min(dueAt, never),
          Math.min(place, never),
        ]),
      }),
    )
  }

  const ask = (tenant: string, operation: string, more: object): Promise<TenantAnswer> =>
    value.ask(tenant, operation, payloadOf(tenant, more))

  /** Asks for what may let entries move up, and hears when the next one is to be promoted. */
  async function change(
    tenant: string,
    operation: string,
    rows: readonly unknown[],
    more: object = {},
  ): Promise<TenantAnswer> {
    const answer = await ask(tenant, operation, { o: own, r: rows, ...more })
    if (!missed.has(tenant)) arm(tenant, Number(answer.rest[1]))
    return answer
  }

  function arm(tenant: string, at: number): void {
    const armed = promotions.get(tenant)
    if (armed?.at === at) return
    armed?.disarm()
    promotions.delete(tenant)
    if (at > 0 && promote !== undefined && !stopped)
      promotions.set(tenant, { at, disarm: clock.at(at, () => void promoteDue(tenant)) })
  }

  /** Takes the entries whose place has come before their due time on record, or all whose place has come. */
  async function takePromoted(tenant: string, all: boolean): Promise<readonly string[]> {
    try {
      const { rest } = await change(tenant, 'promoted', [], { a: all ? 1 : 0 })
      return (rest[0] as readonly Reply[]).map(String)
    } catch (error) {
      arm(tenant, clock.now() + promoteAgainMs)
      missed.add(tenant)
      throw error
    }
  }

  /** Promotes the entries whose place has come before their due time on record. */
  function promoteDue(tenant: string): Promise<void> {
    promotions.get(tenant)?.disarm()
    promotions.delete(tenant)
    const work = takePromoted(tenant, missed.delete(tenant))
      .then((ids) => (ids.length > 0 ? promote!(tenant, ids) : undefined))
      .catch((error: unknown) => onError?.('promote notifications in a throttle queue', error))
      .finally(() => working.delete(work))
    working.add(work)
    return work
  }

  /** Asks for all entries whose place has come, and hears when the next ones are to be promoted. */
  async function lookAtAll(): Promise<void> {
    const tenants = [...(await record.waitingTenants())]
    while (tenants.length > 0)
      await Promise.all(
        tenants.splice(0, tenantsTogether).map((tenant) => {
          missed.add(tenant)
          return promoteDue(tenant)
        }),
      )
  }

  const isLimited = (tenant: string): boolean => {
    const rates = ratesOf(tenant)
    return rates.tenant.length > 0 || rates.module.length > 0
  }

  /** Makes the usage of windows of what the script says of each: its use, when the oldest leaves, when it is free. */
  function useOf(tenant: string, said: Reply): readonly WindowUse[] {
    const rates = ratesOf(tenant)
    const numbers = said as readonly number[]
    return [
      ...rates.tenant.map((window) => ({ window, of: 'tenant' as const })),
      ...rates.module.map((window) => ({ window, of: 'module' as const })),
    ].map(({ window: { max, windowMs, text }, of }, index) => {
      const [used = 0, resetAt = 0, freesAt = 0] = numbers.slice(3 * index)
      return {
        of,
        window: text,
        windowMs,
        max,
        used,
        remaining: Math.max(0, max - used),
        resetAt,
        freesAt: instantOf(freesAt),
      }
    })
  }

  return {
    expect: value.expect,
    async pass(tenant, requests): Promise<ThrottlePassed | undefined> {
      if (!isLimited(tenant)) return undefined
      const { generation, rest } = await ask(tenant, 'pass', {
        o: own,
        r: requests.map(({ id, module, expiresAt = -1, isCritical = false }) => [
          id,
          module,
          Math.min(expiresAt, never),
          isCritical ? 1 : 0,
        ]),
      })
      const [said, use] = rest
      const numbers = said as readonly number[]
      const places = requests.map((_, index) => placeOf(numbers.slice(3 * index), generation))
      return use === null ? { places } : { places, use: useOf(tenant, use!) }
    },
    async takeBack(tenant, requests) {
      const rows = requests
        .toReversed()
        .map(({ id, module, place }) => [
          id,
          module,
          Math.min(place.at, never),
          place.waits ? 1 : 0,
          place.generation ?? 0,
        ])
      await change(tenant, 'take back', rows)
    },
    async turn(tenant, requests) {
      const rows = requests.map(({ id, module }) => [id, module])
      const { generation, rest } = await change(tenant, 'turn', rows)
      const numbers = rest[0] as readonly number[]
      return requests.map((_, index) => ({
        passed: numbers[2 * index] === 1,
        at: instantOf(numbers[2 * index + 1]!),
        generation,
      }))
    },
    async putBack(tenant, requests) {
      await ask(tenant, 'back', {
        o: own,
        r: requests.map(({ id, module, at, generation }) => [
          id,
          module,
          Math.min(at, never),
          ...(generation === undefined ? [] : [generation]),
        ]),
      })
    },
    async leave(tenant, requests) {
      await change(
        tenant,
        'leave',
        requests.map(({ id, module, isCounted = false }) => [id, module, isCounted ? 1 : 0]),
      )
    },
    async preview(tenant, module) {
      if (!isLimited(tenant)) return undefined
      const { generation, rest } = await ask(tenant, 'preview', { n: module })
      const [said, use] = rest
      return { ...placeOf(said as readonly number[], generation), use: useOf(tenant, use!) }
    },
    async use(tenant, module) {
      if (!isLimited(tenant)) return []
      const { rest } = await ask(tenant, 'use', { n: module })
      return useOf(tenant, rest[0]!)
    },
    async placeOf(tenant, { id, module }) {
      const { rest } = await ask(tenant, 'place', { n: module, i: id })
      const at = Number(rest[0])
      return at < 0 ? undefined : instantOf(at)
    },
    async start(startedWith) {
      promote = startedWith
      await lookAtAll()
    },
    noteGone(members) {
      const left = members.filter((id) => !gone.has(id))
      if (promote === undefined || stopped || left.length === 0) return
      for (const id of left) gone.add(id)
      for (const id of gone) if (gone.size > goneMax) gone.delete(id)
      const work = lookAtAll()
        .catch((error: unknown) => {
          // It is told of them again.
          for (const id of left) gone.delete(id)
          onError?.('look for entries that a process was to promote', error)
        })
        .finally(() => working.delete(work))
      working.add(work)
    },
    async stop() {
      stopped = true
      for (const { disarm } of promotions.values()) disarm()
      promotions.clear()
      while (working.size > 0) await Promise.all(working)
    },
  }
}

const instantOf = (at: number): number => (at === never ? Number.POSITIVE_INFINITY : at)

function placeOf(numbers: readonly number[], generation: number): ThrottlePlace {
  const [at = 0, waits, isTenant] = numbers
  return { at: instantOf(at), waits: waits === 1, behind: isTenant === 1 ? 'tenant' : 'module', generation }
}

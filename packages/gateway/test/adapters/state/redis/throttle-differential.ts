/**
 * Compares throttle queues in Redis with those in memory: the same random operations on both, and every answer compared.
 * A world has rates and a record of its own; several processes take turns at its queues in Redis, and at times both sides
 * are lost and filled again from the record.
 */
import assert from 'node:assert/strict'
import { parseWindow, type Window } from '@sluice/limits'
import { type Random, seededRandom } from '@sluice/limits-conformance'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { createRedisThrottle } from '../../../../src/adapters/state/redis/redis-throttle.ts'
import { createMemoryThrottle } from '../../../../src/adapters/state/throttle/memory-throttle.ts'
import type { ThrottlePlace, ThrottleRequest, ThrottleState } from '../../../../src/ports/tenants.ts'
import type { Store } from '../../../../src/ports.ts'
import { createVirtualClock, type VirtualClock } from '../../../../src/simulation/clock.ts'
import { createThrottleRecord, type ThrottleModel } from './throttle-record.ts'

export interface DifferentialOptions {
  readonly seed: number
  readonly operations: number
  /** Opens the state of one process, with the keys of the world. */
  readonly open: (world: string, clock: VirtualClock) => RedisState
  /** Forgets everything that a world has in Redis. */
  readonly lose: (world: string) => Promise<void>
}

const tenant = 'acme'
const marginMs = 20
/** No answer of Redis takes longer on a busy machine, ms. */
const answerMsMax = 120_000
/** A turn may be put back for so long, ms. */
const rememberedMs = 10_000
/** Steps of the clock within one wait: more would mean that a timer is armed again and again for the same instant. */
const stepsMax = 20_000

/** Runs one world; returns the number of operations that were compared. */
export async function compareThrottles(options: DifferentialOptions): Promise<number> {
  const { seed, operations, open, lose } = options
  const random = seededRandom(seed)
  const world = `w${seed}:`
  const clock = createVirtualClock(1_000_000)
  const rates = ratesOf(random)
  const record = createThrottleRecord(tenant)
  // Several processes take each turn when it is due, as the scheduler does. One process may be late: of several, each
  // remembers promotions of its own, and then promotes entries that the others would leave to their due time.
  const isPrompt = random.once(2)
  const fleet = Array.from({ length: isPrompt ? 2 : 1 }, () =>
    createRedisThrottle({
      redis: open(world, clock),
      record,
      clock,
      marginMs,
      ratesOf: () => rates,
    }),
  )
  let memory = openMemory(record, clock, rates)
  const promoted = { redis: new Set<string>(), memory: new Set<string>() }
  const hear = (ids: Set<string>) => async (_: string, some: readonly string[]) => {
    for (const id of some) ids.add(id)
  }
  for (const state of fleet) await state.start(hear(promoted.redis))
  await memory.start(hear(promoted.memory))
  const everPromoted = new Set<string>()
  const recent: { request: ThrottleRequest; place: ThrottlePlace; by: ThrottleState }[] = []
  const turned: { request: ThrottleRequest; at: number; turnedAt: number; by: ThrottleState }[] = []
  let serial = 0

  /** Asks both sides the same, any process of the fleet unless one is given, and compares the answers. */
  async function both<T>(
    name: string,
    question: (state: ThrottleState) => T | Promise<T>,
    by: ThrottleState = random.pick(fleet),
  ): Promise<T> {
    const expected = await question(memory)
    const answer = await answered(name, question(by))
    assert.deepEqual(plain(answer), plain(expected), `${name}, seed ${seed}`)
    return answer
  }

  /** Fails where an answer does not come, and names the seed. */
  async function answered<T>(name: string, answer: T | Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const tooLong = new Promise<never>((_, reject) => {
      const error = new Error(`${name} is not answered within ${answerMsMax} ms, seed ${seed}`)
      timer = setTimeout(reject, answerMsMax, error)
    })
    try {
      return await Promise.race([answer, tooLong])
    } finally {
      clearTimeout(timer)
    }
  }

  function accept(request: ThrottleRequest, place: ThrottlePlace): void {
    const { id, module, expiresAt = Number.POSITIVE_INFINITY, isCritical = false } = request
    const { at } = place
    if (place.waits) record.waits.set(id, { id, module, at, dueAt: Math.min(at, expiresAt) })
    else record.passed.set(id, { id, module, at, isCritical })
  }

  async function pass(): Promise<void> {
    const count = random.once(60) ? random.between(50, 200) : random.between(1, 4)
    const requests = Array.from({ length: count }, (): ThrottleRequest => {
      serial += 1
      return {
        id: String(serial).padStart(8, '0'),
        module: random.pick(['a', 'b', 'c', 'd']),
        ...(random.once(6) ? { expiresAt: clock.now() + random.between(1, 30_000) } : {}),
        isCritical: random.once(12),
      }
    })
    const by = random.pick(fleet)
    const passed = await both('pass', (state) => state.pass(tenant, requests), by)
    for (const [index, place] of passed!.places.entries()) {
      accept(requests[index]!, place)
      recent.push({ request: requests[index]!, place, by })
    }
    recent.splice(0, recent.length - 12)
  }

  async function takeBack(): Promise<void> {
    // A process takes back only entries of its own.
    const by = recent.at(-1)?.by ?? fleet[0]!
    const own = recent.length - 1 - recent.findLastIndex((each) => each.by !== by)
    const last = recent.splice(-Math.max(1, Math.min(own, random.between(1, 4))))
    const entries = last.map(({ request, place }) => ({ ...request, place }))
    await both('take back', (state) => state.takeBack(tenant, entries), by)
    for (const { request } of last) {
      record.passed.delete(request.id)
      record.waits.delete(request.id)
    }
  }

  /** Waiting entries, mostly those whose turn comes soon. */
  function someWaiting(most: number): ThrottleRequest[] {
    const waiting = [...record.waits.values()]
    const from = random.once(3) ? random.below(Math.max(1, waiting.length)) : 0
    return waiting.slice(from, from + random.between(1, most))
  }

  async function turn(requests: readonly ThrottleRequest[]): Promise<void> {
    if (requests.length === 0) return
    const by = random.pick(fleet)
    const turns = await both('turn', (state) => state.turn(tenant, requests), by)
    for (const [index, { passed, at }] of turns.entries()) {
      const { id, module } = requests[index]!
      forgetRecent(id)
      if (passed) {
        record.waits.delete(id)
        record.passed.set(id, { id, module, at, isCritical: false })
        turned.push({ request: { id, module }, at, turnedAt: clock.now(), by })
      } else record.waits.set(id, { id, module, at, dueAt: at })
    }
    turned.splice(0, turned.length - 6)
  }

  async function putBack(): Promise<void> {
    // A turn is remembered for some seconds in Redis: one that is forgotten stays counted, and is not put back.
    const last = turned
      .splice(-random.between(1, 2))
      .filter(({ turnedAt }) => clock.now() - turnedAt < rememberedMs)
    // A process puts back what it was given.
    for (const { request, at, by } of last)
      await both('put back', (state) => state.putBack(tenant, [{ ...request, at }]), by)
    const waiting = [...record.waits]
    for (const { request, at } of last) {
      record.passed.delete(request.id)
      waiting.push([request.id, { ...request, at, dueAt: at }])
    }
    record.waits.clear()
    for (const [id, entry] of waiting.sort(([a], [b]) => (a < b ? -1 : 1))) record.waits.set(id, entry)
  }

  async function leave(): Promise<void> {
    const leaving = someWaiting(2)
    await both('leave', (state) => state.leave(tenant, leaving))
    for (const { id } of leaving) {
      record.waits.delete(id)
      forgetRecent(id)
    }
  }

  function forgetRecent(id: string): void {
    const index = recent.findIndex(({ request }) => request.id === id)
    if (index >= 0) recent.splice(index, 1)
  }

  async function look(): Promise<void> {
    const module = random.pick(['a', 'b', 'c', 'd', 'unknown'])
    if (random.once(2)) await both('preview', (state) => state.preview(tenant, module))
    else await both('use', (state) => state.use(tenant, module))
    for (const request of someWaiting(2)) await both('place', (state) => state.placeOf(tenant, request))
  }

  /** Lets time pass, and takes the turns of entries that were promoted; and of those that are due, if it is prompt. */
  async function wait(): Promise<void> {
    const ms = random.once(20)
      ? random.between(20_000, 200_000)
      : random.pick([0, 1, 19, 20, 300, 1_000, 4_321])
    const end = clock.now() + ms
    for (let steps = 0; ; steps += 1) {
      assert.ok(steps < stepsMax, `the clock does not pass ${clock.now()}, seed ${seed}`)
      const dues = isPrompt ? Array.from(record.waits.values(), ({ dueAt }) => dueAt) : []
      await clock.runUntil(Math.min(end, clock.next() ?? end, Math.max(clock.now(), Math.min(end, ...dues))))
      // Answered behind what was asked when timers ran, before the clock moves on.
      await answered('use', Promise.all(fleet.map((state) => state.use(tenant, 'a'))))
      await clock.settle()
      const due = await promotedNow()
      if (isPrompt) for (const { id, dueAt } of record.waits.values()) if (dueAt <= clock.now()) due.add(id)
      await turn([...due].flatMap((id) => record.waits.get(id) ?? []))
      if (clock.now() === end) break
    }
  }

  /**
   * Compares promotions: entries that memory promotes are promoted in Redis, now or earlier. Redis may promote one more
   * whose place has come, which memory leaves to its due time: each process has timers of its own.
   */
  async function promotedNow(): Promise<Set<string>> {
    const now = new Set(promoted.redis)
    for (const id of now) {
      const entry = record.waits.get(id)
      const place = entry && (await memory.placeOf(tenant, entry))
      assert.ok(place === undefined || place <= clock.now(), `promoted before its place, seed ${seed}`)
      everPromoted.add(id)
    }
    for (const id of promoted.memory) assert.ok(everPromoted.has(id), `${id} is not promoted, seed ${seed}`)
    promoted.redis.clear()
    promoted.memory.clear()
    return now
  }

  async function loseAll(): Promise<void> {
    recent.length = 0
    turned.length = 0
    await memory.stop()
    memory = openMemory(record, clock, rates)
    await memory.start(hear(promoted.memory))
    await lose(world)
    for (const state of fleet) await state.use(tenant, 'a')
    for (const state of fleet) await state.start(hear(promoted.redis))
    // The start has promoted in Redis what the timers of this instant promote in memory.
    await clock.runUntil(clock.now())
  }

  let compared = 0
  for (; compared < operations; compared += 1) {
    const dice = random.below(100)
    if (dice < 30) await pass()
    else if (dice < 35) await takeBack()
    else if (dice < 60) await turn(someWaiting(6))
    else if (dice < 63) await putBack()
    else if (dice < 70) await leave()
    else if (dice < 80) await look()
    else if (dice < 99 || random.once(3)) await wait()
    else await loseAll()
  }
  await lose(world)
  await memory.stop()
  for (const state of fleet) await state.stop()
  return compared
}

/** Answers without the generation, which only a shared state has. */
function plain(answer: unknown): unknown {
  return JSON.parse(
    JSON.stringify(answer ?? null, (key, value: unknown) =>
      key === 'generation' ? undefined : value === Number.POSITIVE_INFINITY ? 'never' : value,
    ),
  )
}

interface Rates {
  readonly tenant: readonly Window[]
  readonly module: readonly Window[]
}

function ratesOf(random: Random): Rates {
  const window = () =>
    `${random.once(30) ? 0 : random.pick([1, 2, 3, 5, 20, 700])}/${random.pick([300, 1_000, 7_000, 60_000])}ms`
  const some = (most: number) => Array.from({ length: random.between(0, most) }, () => parseWindow(window()))
  const rates = { tenant: some(2), module: some(2) }
  return rates.tenant.length + rates.module.length > 0 ? rates : ratesOf(random)
}

function openMemory(record: ThrottleModel, clock: VirtualClock, rates: Rates): ThrottleState {
  const store = {
    async counted({ since }: { readonly since: number }) {
      const items = Array.from(record.passed.values(), ({ module, at, isCritical }) => ({
        module,
        countedAt: at,
        priority: isCritical ? 'critical' : 'normal',
      }))
      return { items: items.filter(({ countedAt }) => countedAt >= since), nextCursor: null }
    },
    inThrottleQueue: async ({ after }: { readonly after?: string }) =>
      after === undefined
        ? Array.from(record.waits.values(), ({ id, module, at, dueAt }) => ({
            id,
            tenant,
            module,
            dueAt,
            promisedAt: at,
          }))
        : [],
  } as unknown as Pick<Store, 'counted' | 'inThrottleQueue'>
  return createMemoryThrottle({ store, clock, marginMs, ratesOf: () => rates })
}

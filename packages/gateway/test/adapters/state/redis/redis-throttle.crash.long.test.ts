/**
 * Several processes accept notifications of one tenant while Redis loses everything again and again: no rolling window of
 * the instants on record is above its maximum. The record refuses what was decided under an earlier generation, as a
 * store does; the windows are counted by code that knows nothing of the queues.
 */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseWindow, type Window } from '@sluice/limits'
import { seededRandom, seedOfRun } from '@sluice/limits-conformance'
import type { Redis } from 'ioredis'
import { startRedis } from '../../../../../../scripts/services/redis.ts'
import { startRedisCluster } from '../../../../../../scripts/services/redis-cluster.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { slotOf } from '../../../../src/adapters/state/redis/key-slot.ts'
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { createRedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import {
  createRedisThrottle,
  type RedisThrottle,
} from '../../../../src/adapters/state/redis/redis-throttle.ts'
import { SluiceError } from '../../../../src/errors.ts'
import { connect, createEnd, demote, loseAgainAndAgain } from './losses.ts'
import { createThrottleRecord, type ThrottleModel } from './throttle-record.ts'

const marginMs = 20
const tenantWindows = ['10/500ms', '40/4s'].map(parseWindow)
const moduleWindows = [parseWindow('6/500ms')]
const modules = ['shop', 'forum']
const random = seededRandom(seedOfRun())

interface World {
  readonly record: ThrottleModel
  readonly fleet: readonly RedisThrottle[]
  readonly counts: { accepted: number; refused: number; unavailable: number; turns: number; lost: number }
  readonly isOver: () => boolean
}

/** An acceptance may be refused so long behind the last loss, ms: nothing is lost any more. */
const refusedMaxMs = 30_000
let serial = 0

/** True if the commit of a decision is refused; the process hears of the generation on record then. */
async function isRefused(
  { record, counts }: World,
  state: RedisThrottle,
  generation: number | undefined,
): Promise<boolean> {
  // The way to the store.
  await sleep(random.below(6))
  const isOld = generation !== record.generation
  if (isOld) {
    counts.refused += 1
    state.expect(record.tenant, record.generation)
  }
  return isOld
}

/** Accepts one notification after the other in one process. */
async function accept(world: World, state: RedisThrottle): Promise<void> {
  const { record, counts, isOver } = world
  let overSinceMs: number | undefined
  while (!isOver()) {
    await sleep(random.below(12))
    serial += 1
    const request = { id: String(serial).padStart(8, '0'), module: random.pick(modules) }
    for (;;) {
      try {
        const passed = await state.pass(record.tenant, [request])
        const [place] = passed!.places
        if (await isRefused(world, state, place!.generation)) {
          if (isOver()) overSinceMs ??= performance.now()
          const refusedMs = performance.now() - (overSinceMs ?? performance.now())
          assert.ok(refusedMs < refusedMaxMs, 'an acceptance is refused again and again')
          await state.takeBack(record.tenant, [{ ...request, place: place! }])
          continue
        }
        const { at } = place!
        counts.accepted += 1
        if (place!.waits) record.waits.set(request.id, { ...request, at, dueAt: at })
        else record.passed.set(request.id, { ...request, at, isCritical: false })
        break
      } catch (error) {
        if (!(error instanceof SluiceError) || error.code !== 'STATE_UNAVAILABLE') throw error
        counts.unavailable += 1
        break
      }
    }
  }
}

/** Takes the turns of waiting entries that are due, as the scheduler of any process does. */
async function takeTurns(world: World, now: () => number): Promise<void> {
  const { record, counts, fleet, isOver } = world
  while (!isOver()) {
    await sleep(10)
    const due = [...record.waits.values()].filter(({ dueAt }) => dueAt <= now()).slice(0, 20)
    await Promise.all(
      due.map(async (entry) => {
        try {
          const state = random.pick(fleet)
          const [turn] = await state.turn(record.tenant, [entry])
          if ((await isRefused(world, state, turn!.generation)) || !record.waits.has(entry.id)) return
          if (!turn!.passed) record.waits.set(entry.id, { ...entry, at: turn!.at, dueAt: turn!.at })
          else {
            record.waits.delete(entry.id)
            record.passed.set(entry.id, { ...entry, at: turn!.at, isCritical: false })
            counts.turns += 1
          }
        } catch (error) {
          if (!(error instanceof SluiceError) || error.code !== 'STATE_UNAVAILABLE') throw error
          counts.unavailable += 1
        }
      }),
    )
  }
}

/** Windows that hold more than their maximum, by the instants on record. */
function over(record: ThrottleModel): string[] {
  const logs: (readonly [string, readonly Window[], number[]])[] = [
    ['tenant', tenantWindows, [...record.passed.values()].map(({ at }) => at)],
    ...modules.map(
      (module) =>
        [
          module,
          moduleWindows,
          [...record.passed.values()].filter((each) => each.module === module).map(({ at }) => at),
        ] as const,
    ),
  ]
  return logs.flatMap(([name, windows, instants]) => {
    instants.sort((a, b) => a - b)
    return windows.flatMap(({ max, windowMs, text }) =>
      instants.flatMap((at, index) =>
        instants[index + max] !== undefined && instants[index + max]! - at < windowMs
          ? [`${name}: ${max + 1} of ${text} from ${at} to ${instants[index + max]}`]
          : [],
      ),
    )
  })
}

/** Runs the load for so long, while `lose` is called again and again with pauses between. */
async function run(
  t: TestContext,
  url: string,
  seconds: number,
  lose: () => Promise<unknown>,
  pauseMs: readonly [number, number],
  isMet: (counts: World['counts'], record: ThrottleModel) => boolean,
): Promise<void> {
  const registrations = createMemoryRegistrations()
  const clock = createSystemClock()
  const record = createThrottleRecord('acme', () => sleep(random.below(4)))
  const fleet = Array.from({ length: 4 }, () => {
    const redis = createRedisState({ url, registrations, clock, deadlineMs: 1_000 })
    t.after(() => redis.close())
    const rates = { tenant: tenantWindows, module: moduleWindows }
    return createRedisThrottle({ redis, record, clock, marginMs, ratesOf: () => rates })
  })
  const counts = { accepted: 0, refused: 0, unavailable: 0, turns: 0, lost: 0 }
  const isOver = createEnd(seconds * 1_000, () => counts.accepted > 50 && isMet(counts, record))
  const world: World = { record, fleet, counts, isOver }
  await Promise.all([
    ...fleet.map((state) => accept(world, state)),
    takeTurns(world, clock.now),
    loseAgainAndAgain({ ...world, random, lose, pauseMs }),
  ])
  const { generation, waits } = record
  const done = JSON.stringify({ ...counts, waiting: waits.size, generation })
  t.diagnostic(`seed ${seedOfRun()}: ${done}`)
  assert.deepEqual(over(record), [])
  assert.ok(counts.accepted > 50, `${counts.accepted} were accepted`)
  assert.ok(isMet(counts, record), `the queues were lost and filled too seldom: ${done}`)
}

describe('throttle queues of four processes', () => {
  it('keep every window when Redis forgets everything several times a second', async (t) => {
    const service = await startRedis()
    t.after(() => service.stop())
    const admin = connect(t, service.url)
    await run(
      t,
      service.url,
      6,
      () => admin.flushall(),
      [20, 180],
      ({ lost }, { generation }) => lost > 10 && generation > 10,
    )
  })

  it('keep every window when the server is demoted, promoted, and comes back with what it had', async (t) => {
    const service = await startRedis()
    t.after(() => service.stop())
    const admin = connect(t, service.url)
    await run(
      t,
      service.url,
      6,
      () => demote(admin),
      [200, 500],
      (_, { generation }) => generation > 3,
    )
  })

  it('keep every window when a replica takes over without the last writes, and the old master comes back', async (t) => {
    const service = await startRedisCluster({ replicas: 1, nodeTimeoutMs: 1_500 })
    t.after(() => service.stop())
    const urls = service.env.SLUICE_TEST_REDIS_CLUSTER!.split(',')
    const nodes = urls.map((url) => connect(t, url))
    const slot = slotOf('sl:{T/acme}:throttle')
    let [master, replica] = await holdersOf(
      slot,
      nodes[0]!,
      (port) => nodes[urls.findIndex((url) => new URL(url).port === port)]!,
    )
    // A replica waits for others before it copies a master, five seconds by default.
    await Promise.all(nodes.map((node) => node.config('SET', 'repl-diskless-sync-delay', '0')))
    await run(
      t,
      `redis-cluster://${urls.map((url) => new URL(url).host).join(',')}`,
      10,
      async () => {
        // The replica is cut off: it may not ask for the log of writes any more.
        await master!.call('ACL', 'SETUSER', 'default', '-psync')
        await master!.call('CLIENT', 'KILL', 'TYPE', 'replica')
        await sleep(500)
        await replica!.cluster('FAILOVER', 'TAKEOVER')
        await master!.call('ACL', 'SETUSER', 'default', '+psync')
        const old = master
        master = replica
        replica = old
        await isReplica(replica!)
      },
      [300, 800],
      // Filled fewer times than there were takeovers: a master that no process reached in its time is noticed by none.
      ({ lost }, { generation }) => lost >= 2 && generation > 3,
    )
  })
})

/** Finds the master and the replica of a slot, once the cluster knows both; a minute at most. */
async function holdersOf(slot: number, node: Redis, at: (port: string) => Redis): Promise<readonly Redis[]> {
  for (const sinceMs = performance.now(); ; await sleep(50)) {
    const [, , ...holders] = (await node.cluster('SLOTS')).find(([from, to]) => from <= slot && slot <= to)!
    if (holders.length > 1) return holders.map(([, port]) => at(String(port)))
    assert.ok(performance.now() - sinceMs < 60_000, 'the cluster knows no replica')
  }
}

/** Waits until a node has heard that it is a replica, and has its master's data; a minute at most. */
async function isReplica(node: Redis): Promise<void> {
  const sinceMs = performance.now()
  while (!/master_link_status:up/.test(await node.info('replication'))) {
    assert.ok(performance.now() - sinceMs < 60_000, 'the old master is no replica')
    await sleep(20)
  }
}

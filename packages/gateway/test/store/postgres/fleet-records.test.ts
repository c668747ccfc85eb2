/** The record from which lost limiter state is filled, and the numbers by which it is known, on a real PostgreSQL. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { someNotification } from '../../../src/conformance/store/sample.ts'
import { advance, type Job } from '../../../src/model.ts'
import type { TenantGeneration } from '../../../src/ports.ts'
import { ask, dropSchemas, joinAt, schemaUrl } from './database.ts'

const clock = createSystemClock()
const conflict = (kind: string, key: string) => ({ applied: false, conflicts: [{ kind, key }] })
const tenant = 'acme'

/** Two processes on a new record. */
async function twoOn(name: string) {
  const url = schemaUrl(name)
  // Beats as in operation: nobody dies here, however busy the machine is.
  const [a, b] = [await joinAt(url, clock, { beatMs: 2_000 }), await joinAt(url, clock, { beatMs: 2_000 })]
  return {
    url,
    a,
    b,
    async close() {
      for (const { members, store } of [a, b]) {
        await members.close()
        await store.close()
      }
    },
  }
}

describe('the record of a fleet on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('refuses an acceptance that was decided under an earlier generation, and no other of its group', async () => {
    const { a, b, close } = await twoOn('generations')
    const under = (state: TenantGeneration['state'], number: number, of = tenant) => [
      { tenant: of, state, number },
    ]
    const first = await b.records.nextThrottleGeneration(tenant)
    assert.ok(
      (await a.store.commit({ accept: [someNotification()], generations: under('throttle', first) })).applied,
    )
    const second = await b.records.nextThrottleGeneration(tenant)
    assert.ok(second > first)
    const [stale, fresh, others] = await Promise.all([
      a.store.commit({ accept: [someNotification()], generations: under('throttle', first) }),
      a.store.commit({ accept: [someNotification()], generations: under('throttle', second) }),
      a.store.commit({ accept: [someNotification()] }),
    ])
    assert.deepEqual(stale, conflict('generation', tenant))
    assert.ok(fresh.applied && others.applied)
    const room = await a.records.nextRoomGeneration(tenant)
    const both = [...under('throttle', second), ...under('room', room - 1)]
    assert.deepEqual(
      await a.store.commit({ accept: [someNotification()], generations: both }),
      conflict('generation', tenant),
    )
    assert.deepEqual(
      await a.store.commit({ accept: [someNotification()], generations: under('throttle', 1, 'unknown') }),
      conflict('generation', 'unknown'),
    )
    await close()
  })

  test('counts every acceptance that it does not refuse, whenever the next generation begins', async () => {
    const { a, b, close } = await twoOn('fence')
    let generation = await b.records.nextThrottleGeneration(tenant)
    let refused = 0
    for (let round = 0; round < 25; round += 1) {
      const under = generation
      const commits = Array.from({ length: 12 }, async (_, n) => {
        const one = someNotification({ createdAt: clock.now() })
        const store = n % 2 === 0 ? a.store : b.store
        const { applied } = await store.commit({
          accept: [one],
          generations: [{ tenant, state: 'throttle', number: under }],
        })
        return { id: one.id, applied }
      })
      generation = await b.records.nextThrottleGeneration(tenant)
      const { counted } = await b.records.entries(tenant, 0)
      const done = await Promise.all(commits)
      refused += done.filter(({ applied }) => !applied).length
      const after = await b.records.entries(tenant, 0)
      assert.equal(counted.length, after.counted.length, 'one was accepted behind the reading of the record')
    }
    const { counted } = await a.records.entries(tenant, 0)
    assert.equal(counted.length + refused, 25 * 12)
    await close()
  })

  test('reads what has passed at its pass, and what waits at its promise in the order of acceptance', async () => {
    const { a, close } = await twoOn('entries')
    const now = clock.now()
    const waits = (at: number) =>
      someNotification({
        createdAt: now,
        status: 'scheduled',
        dueAt: at - 5,
        undecided: true,
        module: 'orders',
        decision: { outcome: 'delay', reason: 'tenant_limit', at, policyVersion: 'v', rules: [] },
        timeline: [
          { at: now, status: 'accepted' },
          { at: now, status: 'scheduled', reason: 'tenant_limit' },
        ],
      })
    const [late, soon, turned, ended] = [now + 9_000, now + 3_000, now + 1_000, now + 2_000].map(waits)
    const old = someNotification({ createdAt: now - 60_000 })
    const passed = someNotification({ createdAt: now, turnedAt: now + 40 })
    const critical = someNotification({ createdAt: now - 10, priority: 'critical' })
    const digest = someNotification({ createdAt: now, actors: ['x'] as never })
    assert.ok(
      (await a.store.commit({ accept: [late!, soon!, turned!, ended!, old, passed, critical, digest] }))
        .applied,
    )
    const moves = [
      advance(turned!, [{ at: now + 500, status: 'queued' }], { turnedAt: now + 500 }),
      advance(ended!, [{ at: now + 600, status: 'cancelled' }]),
    ]
    assert.ok((await a.store.commit({ moves })).applied)
    const { counted, waiting } = await a.records.entries(tenant, now - 1_000)
    assert.deepEqual(
      waiting,
      [late!, soon!].map(({ id, dueAt }) => ({ id, module: 'orders', at: dueAt + 5, dueAt })),
    )
    assert.deepEqual(
      counted.map(({ at, isCritical }) => [at - now, isCritical]).sort(([x], [y]) => Number(x) - Number(y)),
      [
        [-10, true],
        [40, false],
        [500, false],
      ],
    )
    assert.deepEqual(await a.records.waitingTenants(), [tenant])
    await close()
  })

  test('counts the use of the room by the process that has put it on record, jobs included', async () => {
    const { a, b, close } = await twoOn('room')
    const job: Job = {
      ...{ id: 'job-1', tenant, module: 'm', createdAt: clock.now(), status: 'running' },
      ...{ total: 10, taken: 0, refused: [], bytes: 1_000 },
    }
    const work = { message: {}, recipients: [] } as never
    assert.ok((await a.store.commit({ jobs: [{ kind: 'open', job, work }] })).applied)
    const one = someNotification({ bytes: 70 })
    assert.ok((await a.store.commit({ accept: [one, someNotification({ status: 'scheduled' })] })).applied)
    const after = { ...job, taken: 4 }
    assert.ok((await b.store.commit({ jobs: [{ kind: 'move', before: job, after }] })).applied)
    assert.ok(
      (await b.store.commit({ moves: [advance(one, [{ at: clock.now(), status: 'cancelled' }])] })).applied,
    )
    const tallies = new Map((await a.records.tallies(tenant)).map(({ member, ...use }) => [member, use]))
    assert.deepEqual(tallies.get(a.members.id), { queue: 11, waiting: 1, bytes: 1_070 })
    assert.deepEqual(tallies.get(b.members.id), { queue: -5, waiting: 0, bytes: -470 })
    assert.ok((await a.store.tallies()).every(({ count }) => count >= 0))
    await close()
  })

  test('numbers each life of a server once for all processes, and waits until older rights have ended', async () => {
    const { url, a, b, close } = await twoOn('servers')
    const life = { node: 'redis:6379', runId: 'r1', replicationId: 'p1' }
    const begunAt = performance.now()
    const numbers = await Promise.all([a, b, a].map(({ registrations }) => registrations.register(life)))
    assert.ok(performance.now() - begunAt >= 245, 'a fill may begin while calls under older rights are made')
    assert.equal(new Set(numbers).size, 1)
    const againAt = performance.now()
    assert.equal(await b.registrations.register(life), numbers[0])
    assert.ok(performance.now() - againAt < 200, 'a known life needs no pause')
    const promoted = await a.registrations.register({ ...life, replicationId: 'p2' })
    const back = await b.registrations.register(life)
    assert.ok(promoted > numbers[0]! && back > promoted)
    const other = await a.registrations.register({ ...life, node: 'redis:6380' })
    assert.equal(new Set([...numbers, promoted, back, other]).size, 4)
    assert.equal((await ask(url, 'SELECT FROM limiter_server')).length, 2)
    await close()
  })
})

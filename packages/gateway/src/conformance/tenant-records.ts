/**
 * The conformance suite of the record from which limiter state of tenants is filled: `exerciseTenantRecords` registers its
 * tests for any record that two processes share, and `exerciseThrottleRecords` those that hold for the record of one, too.
 */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { advance, type Job } from '../model.ts'
import type { TenantRecords } from '../ports/tenants.ts'
import type { Store } from '../ports.ts'
import { epoch, someNotification } from './store/sample.ts'

const tenant = 'acme'

/** One process on the record, as its throttle queues need it. */
interface ThrottleProcess {
  readonly store: Store
  readonly records: Pick<TenantRecords, 'nextThrottleGeneration' | 'entries' | 'waitingTenants'>
}

/** One process on the record. */
interface RecordProcess extends ThrottleProcess {
  /** The name under which it counts. */
  readonly id: string
  readonly records: TenantRecords
}

export interface TwoOnRecord {
  readonly a: RecordProcess
  readonly b: RecordProcess
  close(): Promise<void>
}

/** Both processes may be the same. */
interface ThrottleRecord {
  readonly a: ThrottleProcess
  readonly b: ThrottleProcess
  close(): Promise<void>
}

/** Registers the tests with node:test, each on a new record. */
export function exerciseThrottleRecords(open: () => Promise<ThrottleRecord>): void {
  it('reads what has passed at its pass, and what waits at its promise in the order of acceptance', async () => {
    const { a, close } = await open()
    const now = epoch
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

  it('counts every acceptance that it does not refuse, whenever the next generation begins', async () => {
    const { a, b, close } = await open()
    let generation = await b.records.nextThrottleGeneration(tenant)
    let refused = 0
    for (let round = 0; round < 25; round += 1) {
      const under = generation
      const commits = Array.from({ length: 12 }, async (_, n) => {
        const { applied } = await (n % 2 === 0 ? a : b).store.commit({
          accept: [someNotification({ createdAt: epoch + round })],
          generations: [{ tenant, state: 'throttle', number: under }],
        })
        return applied
      })
      generation = await b.records.nextThrottleGeneration(tenant)
      assert.ok(generation > under)
      const { counted } = await b.records.entries(tenant, 0)
      refused += (await Promise.all(commits)).filter((applied) => !applied).length
      const after = await b.records.entries(tenant, 0)
      assert.equal(counted.length, after.counted.length, 'one was accepted behind the reading of the record')
    }
    const { counted } = await a.records.entries(tenant, 0)
    assert.equal(counted.length + refused, 25 * 12)
    const late = { accept: [someNotification()], generations: [{ tenant, state: 'throttle', number: 1 }] }
    const conflicts = [{ kind: 'generation', key: tenant }]
    assert.deepEqual(await a.store.commit(late as never), { applied: false, conflicts })
    await close()
  })
}

/** Registers the tests with node:test, each on a new record. */
export function exerciseTenantRecords(open: () => Promise<TwoOnRecord>): void {
  exerciseThrottleRecords(open)

  it('counts the use of the room by the process that has put it on record, jobs included', async () => {
    const { a, b, close } = await open()
    const job: Job = {
      ...{ id: 'job-1', tenant, module: 'm', createdAt: epoch, status: 'running' },
      ...{ total: 10, taken: 0, refused: [], bytes: 1_000 },
    }
    const work = { message: {}, recipients: [] } as never
    assert.ok((await a.store.commit({ jobs: [{ kind: 'open', job, work }] })).applied)
    const one = someNotification({ bytes: 70 })
    assert.ok((await a.store.commit({ accept: [one, someNotification({ status: 'scheduled' })] })).applied)
    const after = { ...job, taken: 4 }
    assert.ok((await b.store.commit({ jobs: [{ kind: 'move', before: job, after }] })).applied)
    assert.ok((await b.store.commit({ moves: [advance(one, [{ at: epoch, status: 'cancelled' }])] })).applied)
    const tallies = new Map((await a.records.tallies(tenant)).map(({ member, ...use }) => [member, use]))
    assert.deepEqual(tallies.get(a.id), { queue: 11, waiting: 1, bytes: 1_070 })
    assert.deepEqual(tallies.get(b.id), { queue: -5, waiting: 0, bytes: -470 })
    assert.ok((await a.store.tallies()).every(({ count }) => count >= 0))
    await close()
  })
}

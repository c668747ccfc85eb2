/**
 * The conformance suite of the record from which limiter state of tenants is filled: `exerciseTenantRecords` registers its
 * tests for any record that two processes share.
 */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { advance, type Job } from '../model.ts'
import type { TenantRecords } from '../ports/tenants.ts'
import type { Store } from '../ports.ts'
import { epoch, someNotification } from './store/sample.ts'

const tenant = 'acme'

/** One process on the record. */
interface RecordProcess {
  readonly store: Store
  /** The name under which it counts. */
  readonly id: string
  readonly records: TenantRecords
}

export interface TwoOnRecord {
  readonly a: RecordProcess
  readonly b: RecordProcess
  close(): Promise<void>
}

/** Registers the tests with node:test, each on a new record. */
export function exerciseTenantRecords(open: () => Promise<TwoOnRecord>): void {
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

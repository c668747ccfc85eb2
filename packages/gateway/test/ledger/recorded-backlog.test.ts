/** The backlog of several processes: one count of the record serves many questions, and takes a bounded share of the time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { createRecordedBacklog } from '../../src/ledger/recorded-backlog.ts'
import type { Notification } from '../../src/model.ts'
import type { Tally } from '../../src/ports.ts'

function setUp() {
  let now = 1_000
  /** The wall clock of the machine was set on by so much, which `monotonic` takes for a suspension. */
  let setMs = 0
  const record = { rows: 0, dead: 0, tookMs: 0, counts: 0, isAway: false, setMs: 0 }
  const store = {
    async backlog() {
      record.counts += 1
      await Promise.resolve()
      now += record.tookMs
      setMs += record.setMs
      if (record.isAway) throw new SluiceError('STORE_UNAVAILABLE', 'Gone.', { retryAfterMs: 1_000 })
      const cell = { tenant: 'acme', channel: 'email', category: 'product', second: 9, example: 'a' } as const
      return [
        { ...cell, kind: 'waiting', count: record.rows } as const,
        { ...cell, kind: 'dead', reason: 'shed', count: record.dead } as const,
      ].filter(({ count }) => count > 0)
    },
    tallies: async (): Promise<readonly Tally[]> => [
      { tenant: 'acme', status: 'scheduled', throttled: false, count: record.rows, bytes: 0 },
      { tenant: 'acme', status: 'dead', throttled: false, count: record.dead, bytes: 0 },
    ],
  }
  const clock = { now: () => now, monotonic: () => now + setMs }
  const backlog = createRecordedBacklog({ store, clock })
  return {
    record,
    backlog,
    pass: (ms: number) => {
      now += ms
    },
    async told() {
      await backlog.refresh()
      const { groups } = backlog.report({ by: 'tenant', now: 0, capacityOf: () => undefined })
      assert.equal(backlog.statuses().scheduled, groups[0]?.count ?? 0)
      return groups[0]?.count ?? 0
    },
  }
}

test('questions of one second are answered by one count of the record', async () => {
  const { record, told, pass } = setUp()
  record.rows = 3
  assert.deepEqual(await Promise.all([told(), told(), told()]), [3, 3, 3])
  record.rows = 4
  pass(999)
  assert.equal(await told(), 3)
  assert.equal(record.counts, 1)
  pass(1)
  assert.equal(await told(), 4)
  assert.equal(record.counts, 2)
})

test('a count of the record takes a tenth of the time at most', async () => {
  const { record, told, pass } = setUp()
  record.rows = 1_000_000
  record.tookMs = 4_000
  await told()
  for (let second = 0; second < 35; second += 1) {
    pass(1_000)
    await told()
  }
  assert.equal(record.counts, 1)
  pass(1_000)
  await told()
  assert.equal(record.counts, 2)
})

test('a wall clock that is set while the record is counted puts the next count off by nothing', async () => {
  const { record, told, pass } = setUp()
  record.setMs = 3_600_000
  assert.equal(await told(), 0)
  record.rows = 1
  pass(1_000)
  assert.equal(await told(), 1)
})

test('a change is not counted beside the record', async () => {
  const { record, backlog, told } = setUp()
  record.rows = 2
  await told()
  backlog.count({} as Notification, 1)
  assert.equal(await told(), 2)
})

test('a question is refused while the record cannot be counted, and the next one counts it again', async () => {
  const { record, told } = setUp()
  record.rows = 2
  record.isAway = true
  await assert.rejects(told, { code: 'STORE_UNAVAILABLE' })
  record.isAway = false
  assert.equal(await told(), 2)
})

test('a question about dead letters counts nothing on record where the states have none', async () => {
  const { record, backlog, pass } = setUp()
  const dead = async (): Promise<number | undefined> => {
    await backlog.refreshDead()
    pass(1_000)
    return backlog.totals(0).dead[0]?.count
  }
  record.rows = 1_000_000
  assert.equal(await dead(), undefined)
  assert.equal(record.counts, 0)
  record.dead = 2
  assert.equal(await dead(), 2)
  assert.equal(record.counts, 1)
  record.dead = 0
  assert.equal(await dead(), undefined)
  assert.equal(record.counts, 1)
})

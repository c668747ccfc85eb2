/** The suites of the store on the record in memory that several processes share, and its end as an engine. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { epoch, someNotification } from '../../../src/conformance/store/sample.ts'
import { exerciseStore } from '../../../src/conformance/store.ts'
import { exerciseStoreMembers } from '../../../src/conformance/store-members.ts'
import { exerciseTenantRecords } from '../../../src/conformance/tenant-records.ts'
import { createMemoryRecord } from '../../../src/store/memory/memory.ts'

const rightMs = 250

exerciseStoreMembers('A record in memory', async () => {
  const record = createMemoryRecord(rightMs)
  let members = 0
  return {
    async join() {
      members += 1
      const id = `member-${members}`
      return { store: record.open(id), id, kill: async () => record.declareDead(id) }
    },
    close: async () => {},
  }
})

exerciseStore('One process on a shared record', async () => createMemoryRecord(rightMs).open('one'), {
  durable: false,
  checksRights: true,
  keepsOutbox: false,
})

describe('the record of tenants in memory', () => {
  exerciseTenantRecords(async () => {
    const record = createMemoryRecord(rightMs)
    const { records } = record
    const processOf = (id: string) => ({ store: record.open(id), id, records })
    return { a: processOf('a'), b: processOf('b'), close: async () => {} }
  })
})

describe('a record in memory, as an engine', () => {
  const stored = async (dueAt: readonly number[]) => {
    const record = createMemoryRecord(rightMs)
    const [a, b] = [record.open('a'), record.open('b')]
    const rows = dueAt.map((at) => someNotification({ dueAt: epoch + at }))
    assert.ok((await a.commit({ accept: rows })).applied)
    return { record, a, b, rows }
  }

  test('loses claims in a crash that nothing has flushed, and no right to send', async () => {
    const { record, a, b, rows } = await stored([1, 2, 3])
    assert.equal((await a.claimDue(epoch + 2, 9)).length, 2)
    await a.begin([{ notification: rows[0]! }])
    assert.equal((await a.claimDue(epoch + 3, 9)).length, 1)
    record.crash()
    const claimed = await b.claimDue(epoch + 9, 9)
    assert.deepEqual(
      claimed.map(({ id }) => id),
      [rows[2]!.id],
    )
  })

  test('counts what a dead process has put on record under one name, once nothing is held by it', async () => {
    const { record, a, b, rows } = await stored([1])
    await a.claimDue(epoch + 1, 9)
    record.declareDead('a')
    assert.equal(record.settleDead('a'), false)
    const before = await record.records.tallies('acme')
    await b.takeOver(epoch + 2, 9)
    assert.equal(record.settleDead('a'), true)
    const after = await record.records.tallies('acme')
    assert.deepEqual(
      [before, after].map(([use]) => use?.member),
      ['a', '0'],
    )
    assert.equal(after[0]!.queue + after[0]!.waiting, rows.length)
  })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTenantBulkhead, type TenantBulkhead, unitsOf } from '../../src/http/tenant-bulkhead.ts'

let time = 0
const begin = (more = {}): TenantBulkhead => {
  time = 1_000_000
  return createTenantBulkhead({ now: () => time, unitsMax: 3, unitsMaxAlone: 5, ...more })
}
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** Counts the requests that are admitted at once. */
function enter(bulkhead: TenantBulkhead, tenant: string, count: number, begun: number[] = []): number {
  let atOnce = 0
  for (let index = 0; index < count; index += 1) {
    const room = bulkhead.enter(tenant, 1)
    if (room === undefined) atOnce += 1
    else void room.then(() => begun.push(index))
  }
  return atOnce
}

test('beyond its share a tenant waits in order of arrival, and another tenant does not wait for it', async () => {
  const bulkhead = begin()
  assert.equal(enter(bulkhead, 'other', 1), 1)
  const begun: number[] = []
  assert.equal(enter(bulkhead, 'noisy', 6, begun), 3)
  assert.equal(enter(bulkhead, 'quiet', 1), 1)
  bulkhead.leave('noisy', 1)
  await settled()
  assert.deepEqual(begun, [3])
  bulkhead.leave('noisy', 1)
  bulkhead.leave('noisy', 1)
  await settled()
  assert.deepEqual(begun, [3, 4, 5])
})

test('a lone tenant has the larger share, from a minute after the last request of another on', async () => {
  const bulkhead = begin()
  assert.equal(enter(bulkhead, 'one', 6), 5)
  assert.equal(enter(bulkhead, 'other', 1), 1)
  for (let index = 0; index < 5; index += 1) bulkhead.leave('one', 1)
  await settled()
  // The sixth has begun.
  bulkhead.leave('one', 1)
  assert.equal(enter(bulkhead, 'one', 6), 3)
  time += 59_999
  for (let index = 0; index < 6; index += 1) bulkhead.leave('one', 1)
  assert.equal(enter(bulkhead, 'one', 6), 3)
  await settled()
  time += 60_001
  for (let index = 0; index < 6; index += 1) bulkhead.leave('one', 1)
  assert.equal(enter(bulkhead, 'one', 6), 5)
})

test('large bodies weigh more, and a tenant with nothing in progress is always admitted', async () => {
  assert.deepEqual(
    [0, 4_095, 4_096, 1_048_576].map((bytes) => unitsOf(bytes)),
    [1, 1, 2, 257],
  )
  assert.deepEqual([unitsOf(0, 1), unitsOf(4_000, 100), unitsOf(8_192, 500)], [1, 11, 53])
  const bulkhead = begin({ unitsMaxAlone: 3 })
  assert.equal(bulkhead.enter('a', 257), undefined)
  const begun: number[] = []
  assert.equal(enter(bulkhead, 'a', 2, begun), 0)
  bulkhead.leave('a', 257)
  await settled()
  assert.deepEqual(begun, [0, 1])
  const large = bulkhead.enter('a', 257)
  assert.notEqual(large, undefined)
  assert.notEqual(bulkhead.enter('a', 1), undefined, 'nobody overtakes it')
  bulkhead.leave('a', 1)
  bulkhead.leave('a', 1)
  await large
})

test('a full page of a list takes the whole share of a tenant, so that beside others the next one waits', async () => {
  const page = unitsOf(0, 0, 500)
  const bulkhead = createTenantBulkhead({ now: () => 1_000_000 })
  assert.equal(bulkhead.enter('quiet', 1), undefined)
  assert.equal(bulkhead.enter('noisy', page), undefined)
  let begun = false
  void bulkhead.enter('noisy', page)?.then(() => {
    begun = true
  })
  assert.equal(bulkhead.enter('quiet', unitsOf(0, 0, 50)), undefined)
  await settled()
  assert.equal(begun, false)
  bulkhead.leave('noisy', page)
  await settled()
  assert.equal(begun, true)
})

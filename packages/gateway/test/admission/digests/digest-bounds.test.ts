/** Digests with too large or too many items, or with failing closings, end and do not delay other digests. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { extentAfter } from '../../../src/admission/digests/digest-closer.ts'
import type { JsonObject } from '../../../src/model.ts'
import type { Change, Store } from '../../../src/ports.ts'
import { createHarness, hour, minute, type Sent, second } from '../../harness.ts'

const policy = {
  version: 1,
  limits: [],
  digests: [{ name: 'news', for: { template: 'new-comment' }, window: '10min', template: 'activity-digest' }],
}
const item = (recipient: string, text: string, index = 0) => ({
  recipient,
  template: 'new-comment',
  data: { index, text },
})
const dataOf = (sent: Sent | undefined) =>
  sent?.message.data as { items: readonly JsonObject[]; totalCount: number; hasMore: boolean }

test('a digest shows items up to 1 MiB and counts all of them', async () => {
  const harness = await createHarness({ policy })
  const large = 'x'.repeat(1_300_000)
  const medium = 'y'.repeat(100_000)
  for (let index = 0; index < 48; index += 1) {
    await harness.post(item('ada', large, index))
    await harness.post(item('bob', medium, index))
  }
  await harness.post(item('eve', 'small'))
  await harness.post(item('eve', 'small too'))
  await harness.runFor(10 * minute + second)
  const by = (recipient: string) => dataOf(harness.sent({ recipient })[0])
  assert.deepEqual([by('ada').items.length, by('ada').totalCount, by('ada').hasMore], [1, 48, true])
  assert.deepEqual([by('bob').items.length, by('bob').totalCount, by('bob').hasMore], [10, 48, true])
  assert.deepEqual([by('eve').items.length, by('eve').totalCount, by('eve').hasMore], [2, 2, false])
  assert.equal(harness.sent().length, 3)
  assert.equal(harness.counts().merged, 98)
  await harness.check()
  await harness.stop()
})

test('a digest of thousands of items is read in pages and closed with 5,000 items at a time', async () => {
  const pages: number[] = []
  let largest = 0
  const wrap = (store: Store): Store => ({
    ...store,
    async commit(change: Change) {
      largest = Math.max(largest, change.moves?.length ?? 0)
      return store.commit(change)
    },
    async digestItems(of, cursor, limit) {
      const page = await store.digestItems(of, cursor, limit)
      pages.push(page.items.length)
      return page
    },
  })
  const harness = await createHarness({ policy, wrap })
  for (let from = 0; from < 5_200; from += 400)
    await harness.postMany(Array.from({ length: 400 }, (_, index) => item('ada', 'x', from + index)))
  await harness.runFor(10 * minute + second)
  assert.deepEqual(
    harness.sent().map((sent) => dataOf(sent).totalCount),
    [5_000, 200],
  )
  assert.ok(Math.max(...pages) <= 250, 'no page is larger')
  assert.equal(largest, 5_000)
  assert.equal(harness.counts().merged, 5_200)
  await harness.check()
  await harness.stop()
})

/** Wraps a store: it cannot write a digest of that many items for ada, with an error that is not of the store. */
function unable(itemsMax: number) {
  const failedAt: number[] = []
  let now = (): number => 0
  const wrap = (store: Store): Store => ({
    ...store,
    async commit(change: Change) {
      const isDigest =
        change.accept?.some(({ actors, to }) => actors !== undefined && to.id === 'ada') === true
      if (isDigest && (change.moves?.length ?? 0) > itemsMax) {
        failedAt.push(now())
        throw new RangeError('Invalid string length')
      }
      return store.commit(change)
    },
  })
  const watch = (clock: () => number): void => {
    now = clock
  }
  return { wrap, failedAt, watch }
}

async function withUnable(itemsMax: number) {
  const { wrap, failedAt, watch } = unable(itemsMax)
  const harness = await createHarness({ policy, wrap })
  watch(() => harness.clock.now() - harness.start - 10 * minute)
  for (let index = 0; index < 30; index += 1) await harness.post(item('ada', 'x', index))
  for (let index = 0; index < 3; index += 1) await harness.post(item('bob', 'x', index))
  await harness.runFor(10 * minute)
  assert.deepEqual(
    harness.sent().map(({ recipient }) => recipient),
    ['bob'],
    'other notifications leave in time',
  )
  await harness.runFor(hour)
  return { harness, failedAt }
}

test('a failed closing is postponed and retried with fewer items', async () => {
  const { harness, failedAt } = await withUnable(20)
  assert.deepEqual(failedAt, [0, 1_000])
  const totals = harness.sent({ recipient: 'ada' }).map((sent) => dataOf(sent).totalCount)
  assert.deepEqual(totals, [10, 10, 10])
  assert.equal(harness.sent({ recipient: 'ada' })[0]?.at, harness.start + 10 * minute + 3 * second)
  await harness.check()
  await harness.stop()
})

test('items leave one by one where a closing with fewer items fails too', async () => {
  const { harness, failedAt } = await withUnable(0)
  assert.deepEqual(failedAt, [0, 1_000, 3_000, 7_000])
  const sent = harness.sent({ recipient: 'ada' })
  assert.equal(sent.length, 30)
  for (const { at } of sent) assert.equal(at, harness.start + 10 * minute + 15 * second)
  assert.equal(harness.counts().merged, 3)
  await harness.check()
  await harness.stop()
})

test('an unreadable digest is retried with exponential backoff while other digests close', async () => {
  let tries = 0
  let broken = true
  const wrap = (store: Store): Store => ({
    ...store,
    async digestItems(of, cursor, limit) {
      const page = await store.digestItems(of, cursor, limit)
      if (!broken || page.items[0]?.to.id !== 'ada') return page
      tries += 1
      throw new TypeError('no such thing')
    },
  })
  const harness = await createHarness({ policy, wrap })
  for (const recipient of ['ada', 'bob'])
    for (let index = 0; index < 3; index += 1) await harness.post(item(recipient, 'x', index))
  await harness.runFor(10 * minute)
  assert.equal(harness.sent({ recipient: 'bob' }).length, 1)
  await harness.runFor(hour)
  // 1, 2, 4 … 256 seconds, then every five minutes.
  assert.ok(tries > 10 && tries < 25, `${tries} tries in an hour`)
  broken = false
  await harness.runFor(5 * minute)
  assert.equal(harness.counts().digesting, 0)
  assert.equal(harness.sent({ recipient: 'ada' }).length, 3)
  await harness.check()
  await harness.stop()
})

test('a due notification that cannot be decided is retried with exponential backoff and delays no other', async () => {
  let tries = 0
  let broken = true
  const wrap = (store: Store): Store => ({
    ...store,
    async commit(change: Change) {
      if (!broken || change.moves?.some(({ before }) => before.to.id === 'ada') !== true)
        return store.commit(change)
      tries += 1
      throw new TypeError('no such thing')
    },
  })
  const harness = await createHarness({ policy, wrap })
  const sendAt = harness.start + minute
  for (const recipient of ['ada', 'bob'])
    for (const index of [0, 1]) await harness.post({ ...item(recipient, 'x', index), sendAt })
  await harness.runFor(11 * minute)
  assert.equal(harness.sent({ recipient: 'bob' }).length, 1)
  await harness.runFor(hour)
  // 0.5, 1, 2 … 32 seconds, then every minute: twice.
  assert.ok(tries > 40 && tries < 200, `${tries} tries in 70 minutes`)
  broken = false
  await harness.runFor(12 * minute)
  assert.equal(harness.sent({ recipient: 'ada' }).length, 1)
  await harness.check()
  await harness.stop()
})

test('a closing uses few items from the third failure on, and single items from the fifth on', () => {
  assert.deepEqual([0, 1, 2, 3, 4, 9].map(extentAfter), ['whole', 'whole', 'few', 'few', 'apart', 'apart'])
})

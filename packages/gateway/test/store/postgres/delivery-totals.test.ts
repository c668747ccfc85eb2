/** Totals of deliveries and complaints that several processes share: PostgreSQL and the record in memory answer the same. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { epoch, someNotification } from '../../../src/conformance/store/sample.ts'
import { advance } from '../../../src/model.ts'
import type { FeedbackEvent } from '../../../src/ports/feedback.ts'
import type { Store } from '../../../src/ports.ts'
import { createMemoryRecord } from '../../../src/store/memory/memory.ts'
import { connect, type Db } from '../../../src/store/postgres/connection.ts'
import { createDeliveryTotals } from '../../../src/store/postgres/fleet/delivery-totals.ts'
import { addressOf, ask, dropSchemas, joinAt, schemaUrl } from './database.ts'

const clock = createSystemClock()
const marketing = { category: 'marketing' }

async function deliver(store: Store, firedAt: number, patch = {}) {
  const notification = someNotification({ ...marketing, ...patch })
  assert.ok((await store.commit({ accept: [notification] })).applied)
  const events = [
    { at: firedAt, status: 'sending' },
    { at: firedAt + 5, status: 'delivered' },
  ] as const
  const move = advance(notification, events, { firedAt, attempts: 1, dueAt: firedAt + 5 })
  assert.ok((await store.commit({ moves: [move] })).applied)
  return { id: notification.id, move }
}

const complaint = (notificationId: string, key = 'k'): FeedbackEvent => ({
  tenant: 'acme',
  notificationId,
  key,
  type: 'complaint',
  channel: 'email',
  category: 'marketing',
  at: epoch,
  keptAt: epoch,
})

async function counts(a: Store, b: Store): Promise<void> {
  const { deliveryTotals: totals } = a
  const read = async () =>
    (await totals!.read(['marketing', 'product'])).toSorted((x, y) =>
      x.category < y.category ? -1 : x.category > y.category ? 1 : x.tenant < y.tenant ? -1 : 1,
    )
  assert.deepEqual(await read(), [])
  const { id, move } = await deliver(a, epoch)
  await deliver(b, epoch + 1_000)
  await deliver(b, epoch + 2_000, { tenant: 'other' })
  await deliver(a, epoch + 2_000, { category: 'product' })
  await deliver(a, epoch + 2_000, { category: 'billing' })
  // A change that is refused counts nothing.
  assert.equal((await b.commit({ moves: [move] })).applied, false)
  assert.deepEqual(await a.feedback.keep([complaint(id), { ...complaint(id, 'l'), type: 'open' }]), [
    true,
    true,
  ])
  assert.deepEqual(await b.feedback.keep([complaint(id), complaint(id, 'm')]), [false, true])
  const expected = [
    { tenant: 'acme', category: 'marketing', delivered: 2, complained: 2 },
    { tenant: 'other', category: 'marketing', delivered: 1, complained: 0 },
    { tenant: 'acme', category: 'product', delivered: 1, complained: 0 },
  ]
  assert.deepEqual(await read(), expected)
  const found = await b.deliveryTotals!.readWith({
    from: epoch + 1_000,
    bucketMs: 1_000,
    categories: ['marketing'],
  })
  assert.deepEqual(found.totals.length, 2)
  assert.deepEqual(
    found.delivered.map(({ tenant, bucket, count }) => [tenant, bucket - epoch / 1_000, count]).sort(),
    [
      ['acme', 1, 1],
      ['other', 2, 1],
    ],
  )
}

test('the record in memory counts what all of its processes delivered and heard', async () => {
  const record = createMemoryRecord(250)
  await counts(record.open('a'), record.open('b'))
})

describe('a fleet on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('counts what all of its processes delivered and heard, with the commits', async () => {
    const url = schemaUrl('totals')
    const [a, b] = [await joinAt(url, clock, { beatMs: 2_000 }), await joinAt(url, clock, { beatMs: 2_000 })]
    await counts(a.store, b.store)
    for (const { members, store } of [a, b]) {
      await members.close()
      await store.close()
    }
  })

  test('loses and doubles no delivery while a reader fills its window in the middle of commits', async () => {
    const url = schemaUrl('totals_race')
    const [a, b] = [await joinAt(url, clock, { beatMs: 2_000 }), await joinAt(url, clock, { beatMs: 2_000 })]
    const each = 60
    const writing = Promise.all(
      [a, b].map(async ({ store }) => {
        for (let n = 0; n < each; n += 1) await deliver(store, epoch + n)
      }),
    )
    const query = { from: epoch, bucketMs: 60_000, categories: ['marketing'] }
    const fills = []
    for (let n = 0; n < 8; n += 1) fills.push(await b.store.deliveryTotals!.readWith(query))
    await writing
    const [end] = await b.store.deliveryTotals!.read(['marketing'])
    assert.equal(end?.delivered, 2 * each)
    for (const { delivered, totals } of fills)
      assert.equal((delivered[0]?.count ?? 0) + end.delivered - (totals[0]?.delivered ?? 0), 2 * each)
    for (const { members, store } of [a, b]) {
      await members.close()
      await store.close()
    }
  })

  test('counts a delivery that is committed between two slices, where it ended shortly before', async (t) => {
    const url = schemaUrl('totals_between')
    const { members, store } = await joinAt(url, clock, { beatMs: 2_000 })
    const connection = await connect(addressOf(url))
    t.after(async () => {
      await connection.close()
      await members.close()
      await store.close()
    })
    const count = 100_005
    const deliver = (from: number, to: number, at: string): Promise<unknown> =>
      ask(
        url,
        `INSERT INTO notification SELECT 'n' || n, n, 'acme', 'r', 'marketing', NULL, NULL, ${epoch}, '{}', '{}'
            FROM generate_series(${from}, ${to}) n;
          INSERT INTO outcome SELECT 'n' || n, 'acme', 'email', 6, ${epoch} + ${at}, ${epoch} + ${at}, 1, ${epoch} + ${at}
            FROM generate_series(${from}, ${to}) n;
          ANALYZE notification; ANALYZE outcome`,
      )
    await deliver(1, count, 'n')
    let slices = 0
    const db: Db = {
      async query<Row extends object>(text: string, values: readonly unknown[] = []) {
        const rows = await connection.query<Row>(text, values)
        if (rows.some((row) => 'count' in row)) {
          slices += 1
          if (slices === 1) await deliver(count + 1, count + 1, `${count - 10}`)
        }
        return rows
      },
    }
    const query = { from: epoch, bucketMs: 86_400_000, categories: ['marketing'] }
    const { delivered } = await createDeliveryTotals(db).readWith(query)
    assert.equal(slices, 1)
    assert.equal(delivered[0]?.count, count + 1)
  })

  test('counts the deliveries of a long window in statements of a bounded size', async (t) => {
    const url = schemaUrl('totals_many')
    const { members, store } = await joinAt(url, clock, { beatMs: 2_000 })
    const connection = await connect(addressOf(url))
    t.after(async () => {
      await connection.close()
      await members.close()
      await store.close()
    })
    const count = 210_000
    // The same instant for very many, too.
    await ask(
      url,
      `INSERT INTO notification SELECT 'n' || n, n, 'acme', 'r', 'marketing', NULL, NULL, ${epoch}, '{}', '{}'
          FROM generate_series(1, ${count}) n;
        INSERT INTO outcome SELECT 'n' || n, 'acme', 'email', 6, at, at, 1, at
          FROM generate_series(1, ${count}) n, LATERAL (SELECT ${epoch} + least(n, 120000) AS at OFFSET 0) i;
        ANALYZE notification; ANALYZE outcome`,
    )
    /** The rows that each statement has counted. */
    const counted: number[] = []
    const db: Db = {
      async query<Row extends object>(text: string, values: readonly unknown[] = []) {
        const rows = await connection.query<Row & { delivered?: { count: number }[]; count?: number }>(
          text,
          values,
        )
        const counts = rows.flatMap(
          ({ delivered, count }) => delivered?.map((each) => each.count) ?? count ?? 0,
        )
        counted.push(counts.reduce((sum, each) => sum + each, 0))
        return rows
      },
    }
    const query = { from: epoch, bucketMs: 86_400_000, categories: ['marketing'] }
    const { delivered } = await createDeliveryTotals(db).readWith(query)
    assert.deepEqual(
      delivered.map((each) => each.count),
      [count],
    )
    assert.ok(Math.max(...counted) <= 100_000, `one statement counts ${Math.max(...counted)}`)
    const found = await store.delivered({ ...query, to: epoch + 120_000 })
    assert.deepEqual(
      found.map((each) => each.count),
      [119_999],
    )
  })
})

/** Lists at a bounded cost a page, beside the writer, with cursors that tell nothing. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { epoch, someNotification, stillClock } from '../../../../src/conformance/store/sample.ts'
import { advance, type Notification } from '../../../../src/model.ts'
import type { DeadLetterQuery, ListQuery, Page, Store } from '../../../../src/ports.ts'
import { readNotification } from '../../../../src/store/sqlite/codec/rows.ts'
import { hashKeyOf } from '../../../../src/store/sqlite/database.ts'
import { createSqliteStore } from '../../../../src/store/sqlite/sqlite.ts'
import { createCursors } from '../../../../src/store/sqlite/tables/cursor.ts'
import { prepareQueries, type RowPage } from '../../../../src/store/sqlite/tables/queries.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-listing-'))
after(() => rmSync(folder, { recursive: true }))
const clock = stillClock(epoch)

async function fill(
  store: Store,
  count: number,
  of: (index: number) => Partial<Notification>,
): Promise<void> {
  const rows = Array.from({ length: count }, (_, index) => someNotification(of(index)))
  for (let from = 0; from < count; from += 1_000)
    await store.commit({ accept: rows.slice(from, from + 1_000) })
}

/** All pages to the end; how many items each had. */
async function pages(list: (cursor: object) => Promise<Page<Notification>>) {
  const sizes: number[] = []
  const found: Notification[] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page: Page<Notification> = await list(cursor === undefined ? {} : { cursor })
    sizes.push(page.items.length)
    found.push(...page.items)
    cursor = page.nextCursor
  }
  return { sizes, found }
}

/** A list over what the store has written, whose pages look at 20 rows. */
function shortPages(path: string) {
  const db = new DatabaseSync(path, { readOnly: true })
  const listing = prepareQueries({ db, key: hashKeyOf(db), cursors: createCursors(db), scanMax: 20 })
  const every = db.prepare('SELECT seq FROM notifications').all() as { seq: number }[]
  const pageOf = ({ rows, nextCursor }: RowPage) => ({ items: rows.map(readNotification), nextCursor })
  return {
    list: async (query: ListQuery) =>
      pageOf(
        listing.list(
          query,
          every.map(({ seq }) => seq),
        ),
      ),
    deadLetters: async (query: DeadLetterQuery) => pageOf(listing.deadLetters(query)),
    close: () => db.close(),
  }
}

test('a page in the order of sendAt examines 2,000 places, and its cursor is for that order and tenant alone', async () => {
  const store = createSqliteStore({ clock, path: join(folder, 'due.db'), thread: false })
  const late = someNotification({ status: 'scheduled', dueAt: epoch + 9_000 })
  await fill(store, 4_500, (index) => ({ tenant: 'other', status: 'scheduled', dueAt: epoch + index }))
  await store.commit({ accept: [late] })
  const { sizes, found } = await pages((cursor) =>
    store.list({ tenant: 'acme', limit: 10, order: 'sendAt', ...cursor }),
  )
  assert.deepEqual([sizes, found.map(({ id }) => id)], [[0, 0, 1], [late.id]])
  const query = { tenant: 'other', limit: 10, order: 'sendAt' } as const
  const { items, nextCursor } = await store.list(query)
  assert.deepEqual(
    items.map(({ dueAt }) => dueAt - epoch),
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
  )
  // A place that the row has left meanwhile is not in the list.
  const db = new DatabaseSync(join(folder, 'due.db'), { readOnly: true })
  const { listDue } = prepareQueries({ db, key: hashKeyOf(db), cursors: createCursors(db) })
  assert.equal(listDue(query, [[epoch, 1]]).rows.length, 1)
  assert.equal(listDue(query, [[epoch - 1, 1]]).rows.length, 0)
  db.close()
  const newest = await store.list({ tenant: 'other', limit: 10 })
  for (const wrong of [
    { ...query, cursor: newest.nextCursor! },
    { ...query, tenant: 'acme', cursor: nextCursor! },
    { tenant: 'other', limit: 10, cursor: nextCursor! },
    { ...query, cursor: 'x' },
  ])
    await assert.rejects(store.list(wrong), { code: 'INVALID_REQUEST' })
  await store.close()
})

test('a page examines a bounded number of rows, may be empty, and all pages together find everything', async () => {
  const path = join(folder, 'scan.db')
  const store = createSqliteStore({ clock, path, thread: false })
  await fill(store, 60, (index) => ({
    createdAt: epoch + Math.floor(index / 3),
    category: index === 1 || index === 37 ? 'rare' : 'common',
    to: { id: index % 2 === 0 ? 'even' : 'odd' },
  }))
  const short = shortPages(path)
  const list = (filter: object) =>
    pages((cursor) => short.list({ tenant: 'acme', limit: 10, ...filter, ...cursor }))
  assert.deepEqual((await list({ category: 'rare' })).sizes, [0, 1, 1, 0])
  assert.deepEqual((await list({ category: 'rare', recipient: 'odd' })).sizes, [0, 1, 1, 0])
  assert.deepEqual((await list({ category: 'rare', from: epoch + 11, to: epoch + 14 })).sizes, [1])
  assert.deepEqual((await list({ statuses: ['failed'] })).sizes, [0, 0, 0, 0])
  // Each row is read as a whole then, and a page examines a fifth of the rows.
  assert.equal((await list({ template: 'none' })).sizes.length, 16)
  assert.equal((await list({ template: 'none', category: 'rare' })).found.length, 0)
  const { found } = await list({})
  assert.equal(new Set(found.map(({ id }) => id)).size, 60)
  const instants = found.map(({ createdAt }) => createdAt)
  assert.deepEqual(
    instants,
    instants.toSorted((a, b) => b - a),
    'newest first',
  )
  short.close()
  await store.close()
})

test('a page of large messages ends when it has read four megabytes', async () => {
  const store = createSqliteStore({ clock, path: ':memory:' })
  await fill(store, 12, () => ({ content: { text: 'x'.repeat(1_000_000) } }))
  const { sizes } = await pages((cursor) => store.list({ tenant: 'acme', limit: 500, ...cursor }))
  assert.deepEqual(sizes, [5, 5, 2])
  await store.close()
})

test('dead letters are listed in bounded pages, too', async () => {
  const path = join(folder, 'dead.db')
  const store = createSqliteStore({ clock, path, thread: false })
  const rows = Array.from({ length: 50 }, (_, index) =>
    someNotification({ channel: index === 45 ? 'sms' : 'email' }),
  )
  await store.commit({ accept: rows })
  await store.commit({
    moves: rows.map((each) => advance(each, [{ at: epoch, status: 'dead', reason: 'shed' }])),
  })
  const short = shortPages(path)
  const { sizes, found } = await pages((cursor) =>
    short.deadLetters({ channel: 'sms', limit: 10, ...cursor }),
  )
  assert.deepEqual([sizes, found[0]?.id], [[0, 0, 1], rows[45]!.id])
  short.close()
  await store.close()
})

test('a commit does not wait for earlier list queries', async () => {
  const store = createSqliteStore({ clock, path: join(folder, 'beside.db') })
  await fill(store, 5_000, () => ({}))
  await store.list({ tenant: 'acme', category: 'none', limit: 50 })
  let answered = 0
  const lists = Array.from({ length: 200 }, async () => {
    const page = await store.list({ tenant: 'acme', category: 'none', limit: 50 })
    answered += 1
    return page
  })
  // No commit, whose fsync takes as long as the disk of the day.
  await store.tallies()
  assert.ok(answered < 150, `${answered} of 200 lists were answered before it`)
  await Promise.all(lists)
  await store.close()
})

test('an acknowledged commit is in the next list, by recipient too', async () => {
  const store = createSqliteStore({ clock, path: join(folder, 'fresh.db') })
  for (let round = 0; round < 50; round += 1) {
    const one = someNotification({ to: { id: `person-${round}` }, createdAt: epoch + round })
    await store.commit({ accept: [one] })
    const [listed, recipient, single] = await Promise.all([
      store.list({ tenant: 'acme', limit: 1 }),
      store.list({ tenant: 'acme', recipient: `person-${round}`, limit: 1 }),
      store.notification('acme', one.id),
    ])
    assert.deepEqual([listed.items[0]?.id, recipient.items[0]?.id, single?.id], [one.id, one.id, one.id])
  }
  await store.close()
})

test('a cursor reveals no row count, survives a restart, and is valid for its own tenant only', async () => {
  const path = join(folder, 'cursors.db')
  let store = createSqliteStore({ clock, path })
  await fill(store, 30, (index) => ({ tenant: index % 2 === 0 ? 'acme' : 'other', to: { id: 'eve' } }))
  for (const query of [{}, { recipient: 'eve' }]) {
    const cursor = (await store.list({ tenant: 'acme', limit: 5, ...query })).nextCursor!
    assert.doesNotMatch(Buffer.from(cursor, 'base64url').toString('latin1'), /^\d+(?:\.\d+)?$/)
    await assert.rejects(store.list({ tenant: 'other', limit: 5, cursor, ...query }), {
      code: 'INVALID_REQUEST',
    })
    const rest = await store.list({ tenant: 'acme', limit: 5, cursor, ...query })
    await store.close()
    store = createSqliteStore({ clock, path })
    assert.deepEqual(await store.list({ tenant: 'acme', limit: 5, cursor, ...query }), rest)
  }
  await store.close()
})

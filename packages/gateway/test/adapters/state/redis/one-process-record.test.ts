/** The record of a process that has its store for itself, as limits in a server need it: over SQLite. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createOneProcessRecord } from '../../../../src/adapters/state/redis/one-process-record.ts'
import { epoch, someNotification, stillClock } from '../../../../src/conformance/store/sample.ts'
import { exerciseStore } from '../../../../src/conformance/store.ts'
import { exerciseThrottleRecords } from '../../../../src/conformance/tenant-records.ts'
import { advance } from '../../../../src/model.ts'
import type { Store } from '../../../../src/ports.ts'
import { createSqliteStore } from '../../../../src/store/sqlite/sqlite.ts'

const open = (path = ':memory:') => createSqliteStore({ clock: stillClock(epoch), path })
const tenant = 'acme'

exerciseStore(
  'SQLite for one process with its limits in a server',
  async ({ clock, isLogged }) =>
    createOneProcessRecord(createSqliteStore({ clock, isLogged, path: ':memory:' })).store,
  { durable: false, checksRights: false },
)

describe('the record of tenants of one process', () => {
  exerciseThrottleRecords(async () => {
    const one = createOneProcessRecord(open())
    return { a: one, b: one, close: () => one.store.close() }
  })
})

describe('the record of one process', () => {
  const statusesIn = async (store: Store): Promise<readonly string[]> =>
    (await store.counted({ tenant, since: 0, limit: 9 })).items.map(({ status }) => status)

  test('reads a notification as sending from its right to send to its next move', async () => {
    const { store } = createOneProcessRecord(open())
    const [one, other] = [someNotification(), someNotification()]
    assert.ok((await store.commit({ accept: [one, other] })).applied)
    assert.deepEqual(await statusesIn(store), ['queued', 'queued'])
    store.begin([{ notification: one }])
    assert.deepEqual(await statusesIn(store), ['sending', 'queued'])
    const delayed = advance(one, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 9 })
    // A move that is refused ends no right.
    const refused = await store.commit({ moves: [{ ...delayed, before: delayed.after }] })
    assert.deepEqual([refused.applied, await statusesIn(store)], [false, ['sending', 'queued']])
    assert.ok((await store.commit({ moves: [delayed] })).applied)
    assert.deepEqual(await statusesIn(store), ['scheduled', 'queued'])
    await store.close()
  })

  test('misses no right that ends while a page is read', async () => {
    const inner = open()
    let answer = (): void => {}
    const isAnswered = new Promise<void>((resolve) => {
      answer = resolve
    })
    const { store } = createOneProcessRecord({
      ...inner,
      async counted(query) {
        const page = await inner.counted(query)
        await isAnswered
        return page
      },
    })
    const one = someNotification()
    assert.ok((await store.commit({ accept: [one] })).applied)
    store.begin([{ notification: one }])
    const reading = statusesIn(store)
    const events = (['sending', 'delivered'] as const).map((status) => ({ at: epoch, status }))
    const sent = advance(one, events, { firedAt: epoch })
    assert.ok((await store.commit({ moves: [sent] })).applied)
    answer()
    assert.deepEqual(await reading, ['sending'])
    await store.close()
  })
})

/**
 * The suite of every store, on a file and in memory. Here some of the stores on a file work in a thread, by the seed; in
 * threads.long.test.ts all do.
 */
import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { exerciseStore } from '../../../src/conformance/store.ts'
import { advance } from '../../../src/model.ts'
import { createSqliteStore } from '../../../src/store/sqlite/sqlite.ts'
import { testSeed } from '../../harness.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-store-'))
after(() => rmSync(folder, { recursive: true }))

/** One of so many stores works in a thread of its own: to start one and its reader costs 150 ms of CPU. */
const threadOf = 3
let opened = testSeed

exerciseStore(
  'SQLite in a file',
  async ({ clock, place, isLogged }) => {
    opened += 1
    const thread = opened % threadOf === 0
    return createSqliteStore({ clock, isLogged, path: join(folder, `${place}.db`), thread })
  },
  { durable: true, checksRights: false },
)

exerciseStore(
  'SQLite in memory',
  async ({ clock, isLogged }) => createSqliteStore({ clock, isLogged, path: ':memory:' }),
  { durable: false, checksRights: false },
)

it('forgets that a row was put back when it moves on, even when it comes back to its instant', async () => {
  const store = createSqliteStore({
    clock: stillClock(epoch),
    path: ':memory:',
  })
  const notification = someNotification({
    status: 'scheduled',
    dueAt: epoch + 1,
  })
  await store.commit({ accept: [notification] })
  await store.claimDue(epoch + 10, 10)
  await store.releaseDue([notification])
  const away = advance(notification, [{ at: epoch, status: 'scheduled' }], {
    dueAt: epoch + 99,
  })
  const back = advance(away.after, [{ at: epoch, status: 'scheduled' }], {
    dueAt: epoch + 1,
  })
  await store.commit({ moves: [away] })
  // Written behind the claims, it is its writer's to keep.
  await store.commit({ moves: [back] })
  assert.deepEqual(await store.claimDue(epoch + 10, 10), [])
  await store.close()
})

it('makes all of its files readable by their owner only, also files that were open to others', async () => {
  const data = join(folder, 'data')
  const path = join(data, 'private.db')
  const modes = (): Record<string, number> =>
    Object.fromEntries(readdirSync(data).map((name) => [name, statSync(join(data, name)).mode & 0o777]))
  const umask = process.umask(0)
  try {
    for (const round of [1, 2]) {
      const store = createSqliteStore({ clock: stillClock(epoch), path, thread: round === 1 })
      await store.commit({ accept: [someNotification()] })
      assert.equal(statSync(data).mode & 0o777, 0o700)
      const names = Object.keys(modes())
      assert.ok(names.includes('private.db-wal'), names.join())
      for (const [name, mode] of Object.entries(modes())) assert.equal(mode, 0o600, name)
      await store.close()
      for (const name of Object.keys(modes())) chmodSync(join(data, name), 0o644)
    }
  } finally {
    process.umask(umask)
  }
})

it('commits changes that arrive together in one transaction', async () => {
  const store = createSqliteStore({
    clock: stillClock(epoch),
    path: join(folder, 'shared.db'),
  })
  const before = await store.counters()
  await Promise.all(Array.from({ length: 50 }, () => store.commit({ accept: [someNotification()] })))
  const { transactions, changes } = await store.counters()
  assert.equal(changes - before.changes, 50)
  assert.equal(transactions - before.transactions, 1)
  await store.close()
})

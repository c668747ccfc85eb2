/** The suite of sources of traffic, on a file beside its writer and on a store in memory. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { epoch, someNotification, stillClock } from '../../src/conformance/store/sample.ts'
import { exerciseTraffic } from '../../src/conformance/traffic.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { openSqliteTraffic } from '../../src/store/sqlite/traffic-source.ts'
import { trafficOf } from '../../src/store/store-traffic.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-traffic-'))
after(() => rmSync(folder, { recursive: true }))
let files = 0
function nextPath(): string {
  files += 1
  return join(folder, `${files}.db`)
}

exerciseTraffic('Traffic of a file', async () => {
  const path = nextPath()
  const store = createSqliteStore({ clock: stillClock(epoch), path })
  await store.commit({})
  return { store, open: async () => openSqliteTraffic(path), close: () => store.close() }
})

exerciseTraffic('Traffic of a store in memory', async () => {
  const store = createMemoryStore()
  return { store, open: async () => trafficOf(store), close: () => store.close() }
})

test('a damaged row of a file is left out of its traffic', async () => {
  const path = nextPath()
  const store = createSqliteStore({ clock: stillClock(epoch), path })
  await store.commit({ accept: [someNotification({ id: 'a' }), someNotification({ id: 'b' })] })
  await store.close()
  const db = new DatabaseSync(path)
  db.exec(`UPDATE notifications SET request = replace(request, 'shop', 'sh0p') WHERE id = 'a'`)
  db.close()
  const source = openSqliteTraffic(path)
  const page = await source.page({ tenant: 'acme', from: epoch, to: epoch + 1 })
  assert.deepEqual(
    page.items.map(({ id }) => id),
    ['b'],
  )
  await source.close()
})

test('a file that does not exist, or is of another version, is refused', () => {
  const missing = nextPath()
  assert.throws(() => openSqliteTraffic(missing), { code: 'INVALID_CONFIG' })
  const other = nextPath()
  const db = new DatabaseSync(other)
  db.exec('PRAGMA user_version = 999')
  db.close()
  assert.throws(() => openSqliteTraffic(other), { code: 'INVALID_CONFIG' })
})

/** The suite of every store, on a file and in memory. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { createSqliteStore } from '../../../src/adapters/store/sqlite.ts'
import { exerciseStore } from '../../../src/conformance/store.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-store-'))
after(() => rmSync(folder, { recursive: true }))

exerciseStore(
  'SQLite in a file',
  async ({ clock, place }) => createSqliteStore({ clock, path: join(folder, `${place}.db`) }),
  { durable: true },
)

exerciseStore('SQLite in memory', async ({ clock }) => createSqliteStore({ clock, path: ':memory:' }), {
  durable: false,
})

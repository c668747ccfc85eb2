/** The suite of every store on a file, with each store in a thread of its own; sqlite.test.ts has some of them in one. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { exerciseStore } from '../../../src/conformance/store.ts'
import { createSqliteStore } from '../../../src/store/sqlite/sqlite.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-store-threads-'))
after(() => rmSync(folder, { recursive: true }))

exerciseStore(
  'SQLite in a file, in threads',
  async ({ clock, place, isLogged }) =>
    createSqliteStore({ clock, isLogged, path: join(folder, `${place}.db`), thread: true }),
  { durable: true, checksRights: false },
)

/** Kills of a process that writes to the embedded store: none loses a resolved commit. Real processes, real disks. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { epoch, seeded, stillClock } from '../../src/conformance/store/sample.ts'
import type { Status } from '../../src/model.ts'
import { createSqliteStore, type SqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { agree, countListed } from './agree.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-killed-'))
after(() => rmSync(folder, { recursive: true }))
const child = fileURLToPath(new URL('./killed-writer.ts', import.meta.url))
const clock = stillClock(epoch)
const open = (path: string): SqliteStore => createSqliteStore({ path, clock })

/** Kills of a process that writes small values. */
const kills = Number(process.env.SLUICE_KILLS ?? 10)

describe('a killed process', () => {
  it(`loses no resolved commit, in ${kills} kills`, {
    timeout: kills * 6_000,
  }, async () => {
    const seed = Number(process.env.SLUICE_SEED ?? 1)
    console.log(`SLUICE_SEED=${seed}`)
    const next = seeded(seed)
    const path = join(folder, 'killed.db')
    const resolved = new Map<string, Status>()
    for (let run = 0; run < kills; run += 1) {
      await writeUntilKilled(path, run, next() * 100, resolved)
      clock.set(Date.now() + 1_000)
      const store = open(path)
      let unsettled = 0
      for (const [id, status] of resolved) {
        const found = await store.notification('acme', id)
        assert.ok(found, `${id} is lost after kill ${run}`)
        // One whose settlement was not resolved may be settled all the same.
        if (status === 'delivered') assert.equal(found.status, 'delivered')
        if (found.status === 'queued') {
          unsettled += 1
          assert.equal(found.suspects?.at(-1), clock.now(), 'it may have been sent')
        } else assert.ok(found.suspects === undefined || found.firedAt !== undefined)
      }
      assert.ok(unsettled > 0)
      await agree(store)
      assert.ok((await countListed(store, { recipient: 'user-1' })) >= resolved.size)
      await store.close()
    }
    console.log(`${resolved.size} notifications over ${kills} kills`)
  })

  it('loses no resolved value of megabytes and keeps no part of an unresolved one, in 8 kills', {
    timeout: 120_000,
  }, async () => {
    const next = seeded(Number(process.env.SLUICE_SEED ?? 1))
    const path = join(folder, 'killed-large.db')
    const resolved = new Map<string, Status>()
    let orphans = 0
    for (let run = 0; run < 8; run += 1) {
      await writeUntilKilled(path, run, next() * 100, resolved, 'large')
      orphans += orphanParts(path)
      const store = open(path)
      for (const id of resolved.keys()) {
        const found = await store.content('acme', id)
        assert.equal(found?.content?.text?.length, found?.bytes, `${id} after kill ${run}`)
      }
      await store.close()
      assert.equal(orphanParts(path), 0)
    }
    console.log(`${resolved.size} values over 8 kills, which left ${orphans} parts of others`)
    assert.ok(resolved.size > 0)
    assert.ok(orphans > 0, 'no kill met a value between its parts')
  })
})

async function writeUntilKilled(
  path: string,
  run: number,
  afterMs: number,
  resolved: Map<string, Status>,
  what = 'small',
): Promise<void> {
  const notes = join(folder, `notes-${run}`)
  const writer = spawn(
    process.execPath,
    ['--conditions=sluice-source', child, path, String(run), notes, what],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const gone = once(writer, 'exit')
  await once(writer.stdout, 'data')
  // Real time on purpose: the kill has to hit the process wherever it happens to be.
  setTimeout(() => writer.kill('SIGKILL'), afterMs)
  await gone
  assert.equal(writer.signalCode, 'SIGKILL')
  // The last line may be cut off.
  for (const line of readFileSync(notes, 'utf8').split('\n').slice(0, -1)) {
    const [id = '', status] = line.split(' ')
    resolved.set(id, status as Status)
  }
}

/** Parts of large values to which no row refers. */
function orphanParts(path: string): number {
  const db = new DatabaseSync(path)
  const { orphans } = db
    .prepare(
      'SELECT count(*) AS orphans FROM parts WHERE value NOT IN (SELECT parts FROM contents WHERE parts > 0)',
    )
    .get()!
  db.close()
  return Number(orphans)
}

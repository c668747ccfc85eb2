/** A start tells a log that was deleted from all that may be without one. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, describe, it } from 'node:test'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { createCommitMark } from '../../../src/store/sqlite/commit-mark.ts'
import { createSqliteStore } from '../../../src/store/sqlite/sqlite.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-commit-mark-'))
after(() => rmSync(folder, { recursive: true }))
const clock = stillClock(epoch)
const open = (path: string, options: object = {}) => createSqliteStore({ path, clock, ...options })

/** Copies these parts of a store as a kill would leave them. */
function copyOf(path: string, name: string, parts: readonly string[]): string {
  const copy = join(folder, name)
  for (const part of parts) execFileSync('cp', [path + part, copy + part])
  return copy
}

describe('a deleted write-ahead log', () => {
  it('is detected at the start, which continues only where the loss is accepted', async () => {
    const path = join(folder, 'log.db')
    let store = open(path)
    const first = someNotification()
    await store.commit({ accept: [first] })
    await store.close()
    store = open(path)
    const second = someNotification()
    await store.commit({ accept: [second] })
    const killed = copyOf(path, 'log-killed.db', ['', '-wal', '-mark'])
    const lost = copyOf(path, 'log-lost.db', ['', '-mark'])
    const alone = copyOf(path, 'log-alone.db', ['', '-mark', '-wal'])
    const folded = new DatabaseSync(alone)
    folded.prepare('SELECT count(*) FROM notifications').get()
    folded.close()
    assert.ok(!existsSync(`${alone}-wal`), 'who looks into the file of a killed gateway folds its log')
    const emptied = copyOf(path, 'log-emptied.db', ['', '-mark'])
    writeFileSync(`${emptied}-wal`, '')
    await store.close()
    for (const copy of [lost, emptied])
      assert.throws(() => open(copy), {
        code: 'STORE_UNAVAILABLE',
        message: /misses what was acknowledged.*--accept-loss/,
      })
    const looked = open(alone)
    assert.ok(await looked.notification('acme', second.id), 'nothing is missing after that')
    await looked.close()
    const whole = open(killed)
    assert.ok(await whole.notification('acme', second.id), 'a kill alone is no loss')
    await whole.close()
    const accepted = open(lost, { acceptLoss: true })
    assert.ok(await accepted.notification('acme', first.id))
    assert.equal(await accepted.notification('acme', second.id), undefined)
    await accepted.close()
    await open(lost).close()
  })

  it('is not reported after a clean close, an erasure, or a copy without its mark', async () => {
    const path = join(folder, 'log-clean.db')
    for (let round = 0; round < 2; round += 1) {
      const store = open(path, { thread: round === 1 })
      await store.commit({ accept: [someNotification()] })
      await store.close()
    }
    const store = open(path)
    await store.beginErasure('acme', 'nobody')
    await store.erase('acme', 'nobody')
    await store.commit({ accept: [someNotification()] })
    const killed = copyOf(path, 'log-erased.db', ['', '-wal', '-mark'])
    const bare = copyOf(path, 'log-bare.db', [''])
    await store.close()
    for (const copy of [killed, bare]) await open(copy).close()
  })

  it('does not refuse a commit that is on disk when the mark itself cannot be written', () => {
    const db = new DatabaseSync(':memory:')
    db.exec('CREATE TABLE meta (name TEXT PRIMARY KEY, value)')
    const mark = createCommitMark(db, join(folder, 'no-such-folder', 'store.db'))
    mark.number()
    mark.committed()
    mark.close()
    db.close()
  })
})

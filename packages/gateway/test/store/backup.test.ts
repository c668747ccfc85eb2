/** A copy of the store that is taken while the gateway writes, as docs/operate/production.md describes it. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { epoch, someNotification, stillClock } from '../../src/conformance/store/sample.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-backup-'))
after(() => rmSync(folder, { recursive: true }))

/** Copies in a thread, as another program would beside the gateway. */
const copier = `
const { workerData } = require('node:worker_threads')
const { DatabaseSync } = require('node:sqlite')
const db = new DatabaseSync(workerData.from, { readOnly: true })
db.prepare('VACUUM INTO ?').run(workerData.to)
db.close()
`

it('a copy taken while notifications are accepted opens, and has all that were accepted before it began', async () => {
  const [from, to] = [join(folder, 'sluice.db'), join(folder, 'copy.db')]
  const clock = stillClock(epoch)
  const store = createSqliteStore({ path: from, clock })
  const accept = (count: number) => Array.from({ length: count }, () => someNotification())
  const before = accept(2_000)
  await store.commit({ accept: before })
  const copied = new Promise<number>((resolve, reject) => {
    const worker = new Worker(copier, { eval: true, workerData: { from, to } })
    worker.on('error', reject)
    worker.on('exit', resolve)
  })
  let isCopied = false
  const ended = copied.finally(() => {
    isCopied = true
  })
  let meanwhile = 0
  while (!isCopied) {
    await store.commit({ accept: accept(10) })
    meanwhile += 10
  }
  assert.equal(await ended, 0)
  assert.ok(meanwhile > 0, 'nothing was accepted while the copy was taken')
  await store.close()

  const restored = createSqliteStore({ path: to, clock })
  const [tally] = await restored.tallies()
  assert.ok(tally!.count >= before.length && tally!.count <= before.length + meanwhile)
  for (const { id } of [before[0]!, before[999]!, before.at(-1)!])
    assert.equal((await restored.notification('acme', id))?.id, id)
  await restored.check()
  await restored.close()
  assert.equal(
    new DatabaseSync(to, { readOnly: true }).prepare('PRAGMA integrity_check').get()!.integrity_check,
    'ok',
  )
})

/** Values of megabytes are written and dropped in parts: none of them makes the commits of others wait. */
import assert from 'node:assert/strict'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { epoch, someJob, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { dataOf } from '../../../src/content.ts'
import type { Job, SharedContent } from '../../../src/model.ts'
import type { JobWork } from '../../../src/ports.ts'
import { createSqliteStore, type SqliteStore } from '../../../src/store/sqlite/sqlite.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-large-'))
after(() => rmSync(folder, { recursive: true }))

let files = 0
function open(options: { readonly path?: string; readonly thread?: boolean } = {}) {
  files += 1
  const { path = join(folder, `${files}.db`), thread = true } = options
  return { path, store: createSqliteStore({ path, thread, clock: stillClock(epoch) }) }
}

const mebibyte = 2 ** 20
const bytes = 3 * mebibyte
const message = { channel: 'email', category: 'product', priority: 'normal' } as const
const secret = 'nobody-else-says-this'
const dataFor = (index: number) => ({ text: `€${secret}-${index}`.repeat(600), index })
const work: JobWork = {
  message,
  recipients: Array.from({ length: 200 }, (_, index) => ({ id: `user-${index}`, data: dataFor(index) })),
}
const jobOf = (patch: Partial<Job> = {}): Job => someJob({ total: work.recipients.length, bytes, ...patch })
const largeContent = (id: string): SharedContent => ({
  id,
  tenant: 'acme',
  bytes,
  content: { subject: '“é” 👋', text: '€'.repeat(mebibyte) },
})
function referringTo({ id }: SharedContent) {
  const { content: _, ...notification } = someNotification({ shared: { id, bytes } })
  return notification
}
const read = (work: JobWork | undefined) => ({
  ...work,
  recipients: work?.recipients.map((each) =>
    each.data === undefined ? each : { ...each, data: dataOf(each.data) },
  ),
})

function rowsOf<T>(path: string, sql: string): readonly T[] {
  const db = new DatabaseSync(path, { readOnly: true })
  const rows = db.prepare(sql).all() as T[]
  db.close()
  return rows
}
const partsIn = (path: string): number => rowsOf<{ n: number }>(path, 'SELECT count(*) AS n FROM parts')[0]!.n

/** Pages of each transaction in the log: a frame that ends one says how large the database is then. */
function pagesOfTransactions(path: string): readonly number[] {
  const log = readFileSync(`${path}-wal`)
  const frameBytes = 24 + log.readUInt32BE(8)
  const pages: number[] = []
  let own = 0
  for (let at = 32; at + frameBytes <= log.length; at += frameBytes) {
    own += 1
    if (log.readUInt32BE(at + 4) === 0) continue
    pages.push(own)
    own = 0
  }
  return pages
}

/** A busy machine has swept the parts by then, ms. */
const sweptMsMax = 30_000

/** Resolves when no part is left. */
async function swept({ path, store }: { readonly path: string; readonly store: SqliteStore }): Promise<void> {
  const until = performance.now() + sweptMsMax
  while (partsIn(path) > 0 && performance.now() < until) await store.counters()
  assert.equal(partsIn(path), 0)
}

for (const thread of [true, false])
  test(`content and job work of megabytes are read back unchanged, also by the next process (${thread ? 'thread' : 'in process'})`, async () => {
    const { path, store } = open({ thread })
    const [content, job] = [largeContent('c1'), jobOf()]
    await store.commit({
      contents: [content],
      accept: [referringTo(content)],
      jobs: [{ kind: 'open', job, work }],
    })
    assert.ok(partsIn(path) >= 24)
    for (const each of [store, undefined]) {
      if (each === undefined) await store.close()
      const of = each ?? open({ path, thread }).store
      assert.deepEqual(await of.content('acme', 'c1'), content)
      assert.deepEqual(read(await of.jobWork(job)), work)
      if (each === undefined) await of.close()
    }
  })

test('small commits go on between the parts of a large one', async () => {
  const { store } = open()
  let isDone = false
  const large = store.commit({ jobs: [{ kind: 'open', job: jobOf(), work }] }).then(() => {
    isDone = true
  })
  let between = 0
  while (!isDone) {
    await store.commit({ accept: [someNotification()] })
    if (!isDone) between += 1
  }
  await large
  assert.ok(between >= 6, `${between} small commits before the large one was done`)
  await store.close()
})

test('no transaction writes or drops more than one part, however large a value is', async () => {
  const opened = open()
  const { path, store } = opened
  // As long as somebody reads an older state the log is not begun anew.
  const reader = new DatabaseSync(path, { readOnly: true })
  reader.exec('BEGIN; SELECT count(*) FROM parts')
  const job = jobOf()
  const content = largeContent('c1')
  const accept = [referringTo(content)]
  await store.commit({ contents: [content], accept })
  await store.commit({ jobs: [{ kind: 'open', job, work }] })
  await store.commit({ jobs: [{ kind: 'move', before: job, after: { ...job, status: 'cancelled' } }] })
  const [settled] = accept.map((before) => ({
    before,
    after: {
      ...before,
      status: 'cancelled' as const,
      timeline: [...before.timeline, { at: epoch, status: 'cancelled' as const }],
    },
    events: [{ at: epoch, status: 'cancelled' as const }],
  }))
  await store.commit({ moves: [settled!] })
  await store.prune({ answers: 0, notifications: epoch + 1 })
  await swept(opened)
  const pages = pagesOfTransactions(path)
  assert.ok(pages.length > 40, `${pages.length} transactions`)
  // A part is 33 pages; index, counts and the list of free pages are some more.
  assert.ok(Math.max(...pages) <= 48, `${Math.max(...pages)} pages in one transaction`)
  reader.close()
  await store.close()
})

test('a refused change leaves no part behind', async () => {
  const opened = open()
  const { store } = opened
  const taken = someNotification()
  await store.commit({ accept: [taken] })
  const content = largeContent('c1')
  const refused = await store.commit({ contents: [content], accept: [referringTo(content), taken] })
  assert.deepEqual(refused, { applied: false, conflicts: [{ kind: 'notification', key: taken.id }] })
  await swept(opened)
  const job = jobOf()
  await store.commit({ jobs: [{ kind: 'open', job, work }] })
  const parts = partsIn(opened.path)
  const again = await store.commit({ jobs: [{ kind: 'open', job, work }] })
  assert.deepEqual(again, { applied: false, conflicts: [{ kind: 'job', key: job.id }] })
  await store.ping()
  const until = performance.now() + sweptMsMax
  while (partsIn(opened.path) > parts && performance.now() < until) await store.counters()
  assert.equal(partsIn(opened.path), parts)
  assert.deepEqual(read(await store.jobWork(job)), work, 'the first one keeps its own')
  await store.close()
})

test('an end of the process between any two parts leaves nothing of the change, and no part after the next start', async () => {
  const { path, store } = open({ thread: false })
  await store.commit({ accept: [someNotification()] })
  const job = jobOf()
  let isDone = false
  void store.commit({ jobs: [{ kind: 'open', job, work }] }).then(() => {
    isDone = true
  })
  const copies: { readonly copy: string; readonly parts: number; readonly isDone: boolean }[] = []
  for (let last = -1; !isDone; ) {
    await undefined
    const parts = partsIn(path)
    if (parts === last) {
      if (!isDone) await new Promise<void>((resolve) => setImmediate(resolve))
      continue
    }
    last = parts
    const copy = join(folder, `copy-${copies.length}.db`)
    for (const end of ['', '-wal']) copyFileSync(`${path}${end}`, `${copy}${end}`)
    copies.push({ copy, parts, isDone })
  }
  assert.ok(copies.filter(({ parts }) => parts > 0).length >= 8, `${copies.length} ends`)
  for (const { copy, parts } of copies) {
    for (const thread of [false, true]) {
      const opened = open({ path: copy, thread })
      const found = await opened.store.job('acme', job.id)
      assert.equal(found, undefined, `after ${parts} parts`)
      await swept(opened)
      await opened.store.close()
    }
  }
  assert.deepEqual(read(await store.jobWork(job)), work)
  await store.close()
})

test('a damaged part costs its own value only', async () => {
  const { path, store } = open()
  const contents = [largeContent('c1'), largeContent('c2')]
  await store.commit({ contents, accept: contents.map(referringTo) })
  const job = jobOf()
  await store.commit({ jobs: [{ kind: 'open', job, work }] })
  await store.close()
  const db = new DatabaseSync(path)
  db.exec(`UPDATE parts SET body = zeroblob(length(body)) WHERE number = 2
    AND value IN (SELECT parts FROM contents WHERE id = 'c1' UNION SELECT parts FROM job_work)`)
  db.close()
  const { store: again } = open({ path })
  await assert.rejects(again.content('acme', 'c1'), { code: 'STORE_UNAVAILABLE', row: 'content c1' })
  await assert.rejects(again.jobWork(job), { code: 'STORE_UNAVAILABLE', row: `the work of job ${job.id}` })
  assert.deepEqual(await again.content('acme', 'c2'), contents[1])
  await again.close()
})

test('an erasure takes a recipient out of job work in parts, and nothing of it stays in the files', async () => {
  const { path, store } = open()
  const job = jobOf()
  await store.commit({ jobs: [{ kind: 'open', job, work }] })
  await store.beginErasure('acme', 'user-7')
  assert.deepEqual(await store.erase('acme', 'user-7'), { done: true })
  const { recipients } = read(await store.jobWork(job))
  assert.deepEqual(recipients?.toSpliced(7, 1), work.recipients.toSpliced(7, 1))
  assert.deepEqual(Object.keys(recipients![7]!), ['id'])
  assert.notEqual(recipients![7]!.id, 'user-7')
  for (const end of ['', '-wal']) {
    const text = readFileSync(`${path}${end}`).toString('latin1')
    assert.ok(!text.includes('"user-7"'), `the name in ${path}${end}`)
    assert.ok(!text.includes(`${secret}-7€`) && !text.includes(`${secret}-7â`), `the data in ${path}${end}`)
  }
  await store.close()
})

test('the log is copied into the file behind some parts, and begun anew', async () => {
  const opened = open()
  const { path, store } = opened
  for (let number = 0; number < 6; number += 1) {
    const content = largeContent(`c${number}`)
    await store.commit({ contents: [content], accept: [referringTo(content)] })
  }
  const { size } = statSync(`${path}-wal`)
  // 18 MiB were written.
  assert.ok(size < 6 * mebibyte, `${size} bytes of log`)
  await store.close()
})

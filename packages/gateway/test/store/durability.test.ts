/** Durability of the embedded store: its lock, older versions, a crash, a full disk. Real files, real disks. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { crc32 } from 'node:zlib'
import { epoch, settled, someNotification, stillClock } from '../../src/conformance/store/sample.ts'
import type { Notification } from '../../src/model.ts'
import { advance } from '../../src/model.ts'
import type { SqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { agree } from './agree.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-durability-'))
const disk = join(folder, 'disk')
after(async () => {
  for (const store of opened) await store.close()
  if (mounted) execFileSync('umount', [disk])
  rmSync(folder, { recursive: true })
})
let mounted = false
const child = fileURLToPath(new URL('./killed-writer.ts', import.meta.url))
const clock = stillClock(epoch)
const opened: SqliteStore[] = []
function open(path: string, options: object = {}): SqliteStore {
  const store = createSqliteStore({ path, clock, ...options })
  opened.push(store)
  return store
}

describe('the lock of the store', () => {
  it('refuses a second process with the name of the file', async () => {
    const path = join(folder, 'owned.db')
    const store = open(path)
    assert.throws(() => open(path), {
      code: 'INVALID_CONFIG',
      message: new RegExp(path),
    })
    assert.throws(
      () =>
        execFileSync(process.execPath, ['--conditions=sluice-source', child, path], {
          stdio: 'pipe',
          encoding: 'utf8',
        }),
      /in use by another gateway/,
    )
    await store.commit({ accept: [someNotification()] })
    await store.close()
    await open(path).close()
  })

  it('refuses a path where no file can be created', () => {
    writeFileSync(join(folder, 'a-file'), '')
    assert.throws(() => open(join(folder, 'a-file', 'x.db')), {
      code: 'INVALID_CONFIG',
    })
  })

  it('refuses a file of a newer version', async () => {
    const path = join(folder, 'newer.db')
    await open(path).close()
    const db = new DatabaseSync(path)
    db.exec('PRAGMA user_version = 999')
    db.close()
    assert.throws(() => open(path), {
      code: 'INVALID_CONFIG',
      message: /newer version/,
    })
  })

  it('opens a file from before jobs and throttle queue turns existed', async () => {
    const path = join(folder, 'older.db')
    const store = open(path)
    const notification = someNotification()
    await store.commit({ accept: [notification] })
    await store.close()
    const db = new DatabaseSync(path)
    db.exec(`DROP INDEX by_job; ALTER TABLE notifications DROP COLUMN job; DROP TABLE jobs; DROP TABLE job_work;
      DROP INDEX turned; DROP INDEX in_line; ALTER TABLE states DROP COLUMN turned_at;
      CREATE INDEX promised ON states (due_at) WHERE platform = 1;
      DROP TABLE erasures; DROP TABLE accounts; ALTER TABLE states DROP COLUMN suspects;
      DROP TABLE contents; DROP TABLE content_uses; ALTER TABLE notifications DROP COLUMN shared;
      DROP TABLE parts; DROP TABLE holds; DROP TABLE feedback; DROP TABLE sent; DROP TABLE feedback_waiting;
      DROP TABLE outbox; DROP TABLE intake_position; DROP TABLE poison;
      ALTER TABLE tallies DROP COLUMN bytes; ALTER TABLE digests DROP COLUMN held_as;
      PRAGMA user_version = 1`)
    db.close()
    const again = open(path)
    assert.deepEqual(await again.notification('acme', notification.id), notification)
    await again.commit({ moves: [settled(notification, epoch)], accept: [someNotification({ job: 'j' })] })
    assert.equal((await again.jobMembers({ tenant: 'acme', id: 'j' })).length, 1)
    await again.close()
  })

  it('moves notifications of a version that wrote the fields of a request in another order', async () => {
    const path = join(folder, 'order.db')
    const store = open(path)
    const notification = someNotification({ status: 'scheduled', dueAt: epoch + 5 })
    await store.commit({ accept: [notification] })
    await store.close()
    const db = new DatabaseSync(path)
    const row = db.prepare('SELECT * FROM notifications').get() as Record<string, string>
    const fields = Object.entries(JSON.parse(row.request!) as object).reverse()
    const request = JSON.stringify(Object.fromEntries(fields))
    const { id, tenant, recipient, channel, requested_channel, category, created_at, decision } = row
    const text = `${id} ${tenant} ${recipient} ${channel} ${requested_channel} ${category} ${created_at} ${request} ${decision}`
    db.prepare('UPDATE notifications SET request = ?, sum = ?').run(request, crc32(text))
    db.close()
    const again = open(path)
    assert.deepEqual(await again.notification('acme', notification.id), notification)
    const decided = advance(notification, [{ at: epoch, status: 'queued' }], {
      decision: { ...notification.decision, at: epoch + 1 },
    })
    await again.commit({ moves: [decided] })
    assert.deepEqual(await again.notification('acme', notification.id), decided.after)
    await again.close()
  })

  it('stores the content shared by a hundred notifications once', async () => {
    const path = join(folder, 'batch.db')
    const store = open(path)
    const said = {
      id: '01CONTENT',
      tenant: 'acme',
      bytes: 1_000_000,
      content: { text: 'x'.repeat(1_000_000) },
    }
    const accept = Array.from({ length: 100 }, () => {
      const { content: _, ...notification } = someNotification({ shared: { id: said.id, bytes: said.bytes } })
      return notification
    })
    await store.commit({ contents: [said], accept })
    await store.commit({ moves: accept.map((each) => settled(each, epoch)) })
    const size = statSync(path).size + statSync(`${path}-wal`).size
    assert.ok(size < 3_000_000, `${size} bytes`)
    await store.close()
  })

  it('lets other processes read the file', async () => {
    const path = join(folder, 'read.db')
    const store = open(path)
    await store.commit({ accept: [someNotification()] })
    const reader = new DatabaseSync(path, { readOnly: true })
    assert.equal(reader.prepare('SELECT count(*) AS n FROM notifications').get()?.n, 1)
    reader.close()
    await store.close()
  })
})

describe('a crash', () => {
  it('gives out by takeover what was due and may have left, and nothing after a clean stop', async () => {
    const path = join(folder, 'takeover.db')
    const clock = stillClock(epoch)
    const open = (of: string) => createSqliteStore({ clock, path: of })
    const store = open(path)
    const due = [1, 2, 3].map((ms) => someNotification({ status: 'scheduled', dueAt: epoch + ms }))
    const others = someNotification({ tenant: 'other', status: 'scheduled', dueAt: epoch + 2 })
    const later = someNotification({ status: 'scheduled', dueAt: epoch + 9_000 })
    await store.commit({ accept: [later, ...due.toReversed(), others] })
    const copy = copyOf(path, 'takeover-copy.db')
    await store.close()
    clock.set(epoch + 5_000)
    const again = open(copy)
    const first = await again.takeOver(clock.now(), 2, ['other'])
    assert.deepEqual(
      first.map(({ notification: { id, suspects }, mayHaveLeft }) => ({ id, suspects, mayHaveLeft })),
      due.slice(0, 2).map(({ id }) => ({ id, suspects: [epoch + 5_000], mayHaveLeft: true })),
    )
    const rest = await again.takeOver(clock.now(), 9)
    assert.deepEqual(new Set(rest.map(({ notification: { id } }) => id)), new Set([others.id, due[2]!.id]))
    assert.deepEqual(await again.takeOver(clock.now(), 9), [])
    assert.deepEqual(
      (await again.claimDue(epoch + 9_000, 9)).map(({ id }) => id),
      [later.id],
    )
    assert.deepEqual(await again.takeBack(clock.now(), due), [])
    assert.deepEqual(await again.heldOnRecord(epoch + 9_000, null, 9), [])
    await again.close()
    const third = open(copy)
    assert.deepEqual(await third.takeOver(clock.now(), 9), [])
    assert.equal((await third.claimDue(epoch + 9_000, 9)).length, 5)
    await third.close()
  })

  it('marks reserved, unsettled notifications as possibly sent, and no others', async () => {
    const path = join(folder, 'suspect.db')
    clock.set(epoch)
    const store = open(path)
    const queued = someNotification()
    const waiting = someNotification({
      status: 'scheduled',
      dueAt: epoch + 5_000,
    })
    const later = someNotification({
      status: 'scheduled',
      dueAt: epoch + 5_001,
    })
    const collecting = someNotification({ status: 'digesting' })
    const done = someNotification()
    const dead = someNotification()
    await store.commit({
      accept: [queued, waiting, later, collecting, done, dead],
    })
    await store.commit({
      moves: [settled(done, epoch), advance(dead, [{ at: epoch, status: 'dead', reason: 'shed' }])],
    })
    const copy = copyOf(path, 'suspect-copy.db')
    await store.close()
    clock.set(epoch + 5_000)
    const again = open(copy)
    const suspected = async (notification: Notification): Promise<readonly number[] | undefined> =>
      (await again.notification('acme', notification.id))?.suspects
    assert.deepEqual(await suspected(queued), [epoch + 5_000])
    assert.deepEqual(await suspected(waiting), [epoch + 5_000])
    for (const other of [later, collecting, done, dead]) assert.equal(await suspected(other), undefined)
    const found = await again.admissions({
      tenant: 'acme',
      recipient: 'user-1',
      since: epoch + 4_999,
      limit: 9,
    })
    assert.deepEqual(new Set(found.map(({ id }) => id)), new Set([queued.id, waiting.id, later.id]))
    await again.close()
    clock.set(epoch + 9_000)
    const third = open(copy)
    assert.deepEqual(
      (await third.notification('acme', queued.id))?.suspects,
      [epoch + 5_000],
      'once per crash',
    )
    const killedAgain = copyOf(copy, 'suspect-again.db')
    await third.close()
    clock.set(epoch + 11_000)
    const fourth = open(killedAgain)
    const both = [epoch + 5_000, epoch + 11_000]
    assert.deepEqual((await fourth.notification('acme', queued.id))?.suspects, both, 'each crash counts')
    const of = { tenant: 'acme', recipient: 'user-1', since: epoch + 10_999, limit: 9 }
    const [newest] = await fourth.admissions(of)
    assert.deepEqual(newest?.suspects?.slice(-1), [epoch + 11_000])
    await fourth.close()
  })
})

/** The file and its log as a kill would leave them. */
function copyOf(path: string, name: string): string {
  const copy = join(folder, name)
  execFileSync('cp', [path, copy])
  execFileSync('cp', [`${path}-wal`, `${copy}-wal`])
  return copy
}

describe('a full disk', () => {
  const big = (): Notification => someNotification({ content: { text: 'x'.repeat(60_000) } })

  async function fill(store: SqliteStore): Promise<number> {
    for (let written = 0; ; written += 1) {
      const results = await Promise.allSettled([
        store.commit({ accept: [big()] }),
        store.commit({ accept: [someNotification()] }),
      ])
      const refused = results.filter((result) => result.status === 'rejected')
      if (refused.length === 0) continue
      assert.equal(refused.length, 2, 'a group fails as a whole')
      for (const { reason } of refused) {
        assert.equal(reason.code, 'STORE_UNAVAILABLE')
        assert.equal(reason.retryAfterMs, 1_000)
        assert.match(reason.message, /the disk is full/)
      }
      return written
    }
  }

  it('refuses with STORE_UNAVAILABLE, keeps reading, and recovers by itself', async () => {
    clock.set(epoch)
    const path = join(folder, 'bounded.db')
    const store = open(path, { sizeMaxMib: 3 })
    const first = someNotification()
    await store.commit({ accept: [first] })
    await store.commit({ moves: [settled(first, epoch)] })
    assert.ok((await fill(store)) > 10)
    await assert.rejects(store.ping(), { code: 'STORE_UNAVAILABLE' }, 'a few bytes would find room')
    await assert.rejects(store.commit({ accept: [big()] }), { code: 'STORE_UNAVAILABLE' })
    assert.equal((await store.notification('acme', first.id))?.status, 'delivered')
    await agree(store)
    const { items } = await store.list({
      tenant: 'acme',
      statuses: ['queued'],
      limit: 20,
    })
    for (const item of items) await store.commit({ moves: [settled(item, epoch)] })
    assert.ok((await store.prune({ answers: 0, notifications: epoch + 1 })).rows > 0)
    assert.deepEqual(await store.commit({ accept: [big()] }), {
      applied: true,
    })
    await agree(store)
    await store.close()
  })

  mounted = mount(disk)
  it('is survived on a real full file system', {
    skip: mounted ? false : 'no tmpfs can be mounted here',
  }, async () => {
    const ballast = join(disk, 'ballast')
    writeFileSync(ballast, Buffer.alloc(9 * 2 ** 20))
    const store = open(join(disk, 'sluice.db'))
    assert.ok((await fill(store)) > 10)
    await assert.rejects(store.commit({ accept: [big()] }), {
      code: 'STORE_UNAVAILABLE',
    })
    await agree(store)
    unlinkSync(ballast)
    await store.ping()
    const late = someNotification()
    assert.deepEqual(await store.commit({ accept: [late] }), { applied: true })
    await agree(store)
    await store.close()
    const again = open(join(disk, 'sluice.db'))
    assert.deepEqual(await again.notification('acme', late.id), late)
    await agree(again)
    await again.close()
  })
})

function mount(path: string): boolean {
  mkdirSync(path)
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', path], {
      stdio: 'ignore',
    })
    return true
  } catch {
    return false
  }
}

/** A byte that changed on the disk is detected and said, or it changed nothing; it never changes an answer. */
import assert from 'node:assert/strict'
import {
  closeSync,
  copyFileSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, it } from 'node:test'
import {
  epoch,
  seeded,
  settled,
  someDigest,
  someNotification,
  stillClock,
} from '../../src/conformance/store/sample.ts'
import type { Notification, Recipient } from '../../src/model.ts'
import type { Store, StoredAnswer } from '../../src/ports.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-corruption-'))
after(() => rmSync(folder, { recursive: true }))
const clock = stillClock(epoch)
const sound = join(folder, 'sound.db')
const digest = someDigest()
const answer: StoredAnswer = {
  tenant: 'acme',
  module: 'shop',
  method: 'POST',
  path: '/',
  key: 'k',
  requestHash: 'h',
  status: 202,
  body: '{}',
  createdAt: epoch,
}

/** Everything that a gateway could ask. */
async function everything(store: Store): Promise<unknown> {
  const list = (await store.list({ tenant: 'acme', limit: 10_000 })).items
  const recipients: (Recipient | undefined)[] = []
  const recipientRecords = new Set(list.map(({ to }) => to.id))
  for (const id of recipientRecords) recipients.push(await store.recipient('acme', id))
  const waiting: (readonly Notification[])[] = []
  for (const id of recipientRecords) waiting.push((await store.waiting('acme', id, null, 10_000)).items)
  const singly: (Notification | undefined)[] = []
  for (const { id } of list) singly.push(await store.notification('acme', id))
  return {
    list,
    recipients,
    waiting,
    singly,
    tallies: await store.tallies(),
    answer: await store.answer(answer),
    digest: await store.openDigest(digest),
    closing: await store.dueDigests(Number.MAX_SAFE_INTEGER, 10),
    due: await store.claimDue(Number.MAX_SAFE_INTEGER, 10_000),
    admissions: await store.admissions({
      tenant: 'acme',
      since: 0,
      limit: 10_000,
    }),
  }
}

let truth: unknown
before(async () => {
  const store = createSqliteStore({ path: sound, clock })
  const list = Array.from({ length: 120 }, (_, index) =>
    someNotification({
      to: { id: `user-${index % 7}`, email: `user-${index % 7}@example.com` },
      status: index % 3 === 0 ? 'scheduled' : 'queued',
      dueAt: epoch + index,
    }),
  )
  await store.commit({
    accept: list,
    digests: [{ kind: 'open', digest }],
    answer,
  })
  await store.commit({
    recipients: Array.from({ length: 7 }, (_, i) => ({
      tenant: 'acme',
      id: `user-${i}`,
      email: 'a@b.example',
    })),
  })
  await store.commit({
    moves: list.filter(({ status }) => status === 'queued').map((n) => settled(n, epoch)),
  })
  truth = await everything(store)
  await store.close()
})

describe('a damaged file', () => {
  it('never silently changes an answer, whichever byte is damaged', async () => {
    const seed = Number(process.env.SLUICE_SEED ?? 1)
    console.log(`SLUICE_SEED=${seed}`)
    const next = seeded(seed)
    const { size } = statSync(sound)
    let detected = 0
    const rounds = 100
    // Most of the file is empty. A seed that hits little of what is in use tries longer.
    const isHit = (): boolean => detected > rounds / 10
    let round = 0
    for (; round < rounds || (!isHit() && round < rounds * 3); round += 1) {
      const path = join(folder, 'hit.db')
      for (const rest of ['', '-wal', '-shm', '-lock', '-mark']) rmSync(path + rest, { force: true })
      copyFileSync(sound, path)
      const place = Math.floor(next() * size)
      flip(path, place, 1 << Math.floor(next() * 8))
      try {
        const told: string[] = []
        const onDamagedRow = ({ what }: { readonly what: string }): void => void told.push(what)
        const store = createSqliteStore({ path, clock, thread: false, onDamagedRow })
        try {
          const found = await everything(store)
          // A row that is left out is told, and then an answer is not the same.
          if (told.length === 0)
            assert.deepEqual(found, truth, `a silent change by byte ${place} (seed ${seed})`)
          else detected += 1
        } finally {
          await store.close()
        }
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error
        assert.ok(error instanceof Error && 'code' in error, String(error))
        assert.ok(
          ['STORE_UNAVAILABLE', 'INVALID_CONFIG'].includes(String(error.code)),
          `byte ${place}: ${error.message}`,
        )
        detected += 1
      }
    }
    console.log(`${detected} of ${round} changed bytes were detected, the others were in no use`)
    assert.ok(isHit())
  })

  it('tells of a stored answer whose key changed: no retry would find it', async () => {
    const path = join(folder, 'key.db')
    copyFileSync(sound, path)
    flip(path, readFileSync(path).indexOf('"path":"/"') + 3, 32)
    const told: string[] = []
    const store = createSqliteStore({
      path,
      clock,
      thread: false,
      onDamagedRow: ({ what }) => told.push(what),
    })
    assert.equal(await store.answer(answer), undefined)
    assert.deepEqual(told, ['the stored answer 1'])
    await store.close()
  })

  it('refuses a recipient on record under another name: its opt-outs would not be found', async () => {
    const path = join(folder, 'name.db')
    copyFileSync(sound, path)
    // The last bit of the last one's name: its place in the order of names stays right.
    flip(path, readFileSync(path).indexOf('acmeuser-6') + 9, 1)
    assert.throws(() => createSqliteStore({ path, clock, thread: false }), {
      code: 'STORE_UNAVAILABLE',
      message: /is damaged \(the name of recipient user-6/,
    })
  })

  it('tells of a position in a topic that has changed, and does not skip the records before it', async () => {
    const path = join(folder, 'position.db')
    const told: string[] = []
    const onDamagedRow = ({ what }: { readonly what: string }): void => void told.push(what)
    const open = () => createSqliteStore({ path, clock, thread: false, onDamagedRow })
    const place = { topicId: 'topic', partition: 3 }
    const first = open()
    await first.intake.advance([{ ...place, next: 100, ahead: [102] }])
    await first.close()
    const db = new DatabaseSync(path)
    db.exec('UPDATE intake_position SET next = next + 4096')
    db.close()
    const store = open()
    assert.deepEqual(await store.intake.positions('topic'), [])
    assert.deepEqual(told, ['the position in partition 3 of the topic topic'])
    await store.intake.advance([{ ...place, next: 90, ahead: [] }])
    assert.deepEqual(await store.intake.positions('topic'), [{ ...place, next: 90, ahead: [] }])
    await store.close()
  })

  it('of an event that a provider reported does not stop the erasure of its recipient', async () => {
    const path = join(folder, 'event.db')
    const open = () => createSqliteStore({ path, clock, thread: false })
    const first = open()
    const sent = someNotification({ to: { id: 'ada', email: 'ada@example.com' }, status: 'queued' })
    await first.commit({ accept: [sent] })
    await first.commit({ moves: [settled(sent, epoch)] })
    const event = {
      tenant: sent.tenant,
      notificationId: sent.id,
      channel: 'email',
      category: 'news',
    } as const
    await first.feedback.keep([
      { ...event, key: 'k', type: 'bounce', at: epoch, keptAt: epoch, detail: 'ada' },
    ])
    await first.close()
    const change = (text: string): unknown => {
      const db = new DatabaseSync(path)
      try {
        return db.prepare(text).get()
      } finally {
        db.close()
      }
    }
    change(`UPDATE feedback SET body = substr(body, 2) RETURNING 1`)
    const store = open()
    await store.beginErasure(sent.tenant, 'ada')
    await store.erase(sent.tenant, 'ada')
    await store.close()
    assert.deepEqual({ ...(change('SELECT body FROM feedback') as object) }, { body: '' })
  })

  it('is told apart from a torn write, also in the write-ahead log', async () => {
    const path = join(folder, 'logged.db')
    const store = createSqliteStore({ path, clock, thread: false })
    const list = Array.from({ length: 12 }, () => someNotification())
    const ends: number[] = []
    for (const one of list) {
      await store.commit({ accept: [one] })
      ends.push(statSync(`${path}-wal`).size)
    }
    // The file as a kill would leave it, with a byte changed in the frames of one commit.
    const left = async (hit: number): Promise<number> => {
      const copy = join(folder, `logged-${hit}.db`)
      for (const rest of ['', '-wal']) copyFileSync(path + rest, copy + rest)
      flip(`${copy}-wal`, ends[hit]! - 100, 1)
      const opened = createSqliteStore({ path: copy, clock, thread: false })
      const { items } = await opened.list({ tenant: 'acme', limit: 100 })
      await opened.close()
      return items.length
    }
    for (const hit of [0, 5, 10])
      await assert.rejects(left(hit), {
        message: /is damaged \(commits in its log/,
      })
    assert.equal(await left(11), 11, 'the last one may have been cut off')
    await store.close()
  })

  it('is refused by name when it is no database at all', () => {
    const path = join(folder, 'text.db')
    writeFileSync(path, 'this is not a database, '.repeat(1_000))
    assert.throws(() => createSqliteStore({ path, clock, thread: false }), {
      code: 'STORE_UNAVAILABLE',
      message: new RegExp(`${path} is damaged`),
    })
  })

  it('accepts no commit after damage was found', async () => {
    const path = join(folder, 'met.db')
    copyFileSync(sound, path)
    const store = createSqliteStore({ path, clock, checkMib: 0 })
    const { size } = statSync(path)
    for (let place = 8_192 * 2; place < size; place += 64) flip(path, place, 255)
    await assert.rejects(everything(store), {
      code: 'STORE_UNAVAILABLE',
      message: /is damaged/,
    })
    await assert.rejects(store.commit({ accept: [someNotification()] }), {
      message: /is damaged/,
    })
    await assert.rejects(store.ping(), { message: /is damaged/ })
    await assert.rejects(store.check(), { message: /is damaged/ })
    await store.close().catch(() => {})
  })
})

function flip(path: string, place: number, bits: number): void {
  const file = openSync(path, 'r+')
  const byte = Buffer.alloc(1)
  readSync(file, byte, 0, 1, place)
  byte[0]! ^= bits
  writeSync(file, byte, 0, 1, place)
  closeSync(file)
}

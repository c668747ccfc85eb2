/** The late index of what is due against a plain map, over rollbacks and reopenings at every stage of folding. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { it } from 'node:test'
import { seeded } from '../../../../src/conformance/store/sample.ts'
import { createDueIndex } from '../../../../src/store/sqlite/indexes/due-index.ts'

const scheduled = 1
const delivered = 6

it('finds the next places of rows in memory and in the table, at most so many', () => {
  const next = seeded(3)
  const db = new DatabaseSync(':memory:')
  db.exec(`CREATE TABLE meta (name TEXT PRIMARY KEY, value);
    CREATE TABLE states (seq INTEGER PRIMARY KEY, status INTEGER, due_at INTEGER);
    CREATE TABLE due (due_at INTEGER, seq INTEGER, PRIMARY KEY (due_at, seq)) WITHOUT ROWID`)
  const index = createDueIndex({ db, segmentRows: 64 })
  const all: { readonly dueAt: number; readonly seq: number }[] = []
  for (let seq = 1; seq <= 400; seq += 1) {
    // Many are due at one instant, as at the end of quiet hours.
    const dueAt = next() < 0.5 ? 500 : Math.floor(next() * 1_000)
    db.exec('BEGIN')
    index.flush(1)
    index.put(seq, undefined, dueAt)
    all.push({ dueAt, seq })
    db.exec('COMMIT')
    index.finish(true)
  }
  assert.ok(index.from > 0, 'some are in the table')
  const sorted = all.toSorted((a, b) => a.dueAt - b.dueAt || a.seq - b.seq)
  for (const from of [0, 1, 150, 399])
    for (const limit of [1, 7, 100, 1_000]) {
      const after = from === 0 ? { dueAt: -1, seq: 0 } : sorted[from - 1]!
      const found = index.next(after, limit).map(({ dueAt, seq }) => ({ dueAt, seq }))
      assert.deepEqual(found, sorted.slice(from, from + limit), `${limit} after ${from}`)
    }
})

it('returns exactly the due rows through flushes, moves, rollbacks and reopening', () => {
  const seed = Number(process.env.SLUICE_SEED ?? 1)
  console.log(`SLUICE_SEED=${seed}`)
  const next = seeded(seed)
  const below = (max: number): number => Math.floor(next() * max)
  const db = new DatabaseSync(':memory:')
  db.exec(`CREATE TABLE meta (name TEXT PRIMARY KEY, value);
    CREATE TABLE states (seq INTEGER PRIMARY KEY, status INTEGER, due_at INTEGER);
    CREATE TABLE due (due_at INTEGER, seq INTEGER, PRIMARY KEY (due_at, seq)) WITHOUT ROWID`)
  const upsert = db.prepare('INSERT OR REPLACE INTO states VALUES (?, ?, ?)')
  const open = () => createDueIndex({ db, segmentRows: 16 })
  let index = open()
  /** The expected state: the instant at which a row is due, or that it is not. */
  let truth = new Map<number, number | undefined>()
  let seq = 0

  function put(records: Map<number, number | undefined>, row: number, dueAt: number | undefined): void {
    index.put(row, records.get(row), dueAt)
    upsert.run(row, dueAt === undefined ? delivered : scheduled, dueAt ?? 0)
    records.set(row, dueAt)
  }

  for (let step = 0; step < 1_500; step += 1) {
    db.exec('BEGIN')
    const draft = new Map(truth)
    index.flush(below(8))
    for (let changes = below(4); changes > 0; changes -= 1) {
      const tentative = new Map(draft)
      const mark = index.mark()
      db.exec('SAVEPOINT change')
      for (let writes = 1 + below(3); writes > 0; writes -= 1) {
        const dueAt = next() < 0.5 ? undefined : below(50)
        const old = below(seq + 1)
        if (next() < 0.4 || !tentative.has(old)) {
          seq += next() < 0.1 ? 3 : 1
          put(tentative, seq, dueAt)
        } else put(tentative, old, dueAt)
      }
      if (next() < 0.3) {
        db.exec('ROLLBACK TO change')
        index.undo(mark)
      } else for (const [row, dueAt] of tentative) draft.set(row, dueAt)
      db.exec('RELEASE change')
    }
    const committed = next() < 0.8
    db.exec(committed ? 'COMMIT' : 'ROLLBACK')
    index.finish(committed)
    if (committed) truth = draft
    if (next() < 0.05) index = open()

    const places = [...truth]
      .filter(([, dueAt]) => dueAt !== undefined)
      .map(([row, dueAt]) => ({ dueAt: dueAt!, seq: row }))
      .sort((a, b) => a.dueAt - b.dueAt || a.seq - b.seq)
    const after = { dueAt: below(50), seq: below(seq + 1) }
    const until = below(60)
    const limit = 1 + below(20)
    const rest = places.filter(
      (at) => at.dueAt > after.dueAt || (at.dueAt === after.dueAt && at.seq > after.seq),
    )
    const plain = (list: readonly object[]) => list.map((at) => ({ ...at }))
    assert.deepEqual(
      plain(index.range(after, until, limit)),
      rest.filter((at) => at.dueAt <= until).slice(0, limit),
      `after step ${step}`,
    )
    assert.deepEqual(index.first(after)?.seq, rest[0]?.seq)
  }
  assert.ok(index.from > 1_000, 'most of it was folded')
})

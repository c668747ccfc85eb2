/** The late index against a plain map, over rollbacks and reopenings at every stage of folding. */
import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { it } from 'node:test'
import { seeded } from '../../../../src/conformance/store/sample.ts'
import type { WriteBehindIndex } from '../../../../src/store/sqlite/indexes/write-behind-index.ts'
import { createWriteBehindIndex, hashMax } from '../../../../src/store/sqlite/indexes/write-behind-index.ts'

function fresh(): DatabaseSync {
  const db = new DatabaseSync(':memory:')
  db.exec(`CREATE TABLE meta (name TEXT PRIMARY KEY, value);
    CREATE TABLE rows (hash INTEGER, seq INTEGER, PRIMARY KEY (hash, seq)) WITHOUT ROWID`)
  return db
}

function lookup(db: DatabaseSync, index: WriteBehindIndex, hash: number): readonly number[] {
  return db
    .prepare('SELECT seq FROM rows WHERE hash = ? UNION SELECT value FROM json_each(?) ORDER BY 1')
    .all(hash, index.noted(hash))
    .map(({ seq }) => Number(seq))
}

it('finds every row at every moment through flushes, rollbacks and reopening', () => {
  const seed = Number(process.env.SLUICE_SEED ?? 1)
  console.log(`SLUICE_SEED=${seed}`)
  const next = seeded(seed)
  const db = fresh()
  const open = (): WriteBehindIndex => createWriteBehindIndex({ db, table: 'rows', segmentRows: 16 })
  let index = open()
  const truth = new Map<number, number[]>()
  const rows: [number, number][] = []
  let seq = 0
  let foldedAtMost = 0
  for (let step = 0; step < 600; step += 1) {
    db.exec('BEGIN')
    const added: [number, number][] = []
    for (let i = Math.floor(next() * 6); i > 0; i -= 1) {
      seq += next() < 0.1 ? 2 : 1
      const hash = next() < 0.5 ? Math.floor(next() * 10) : Math.floor(next() * hashMax)
      added.push([hash, seq])
      index.add(hash, seq)
    }
    index.flush(Math.floor(next() * 12))
    const committed = next() < 0.8
    db.exec(committed ? 'COMMIT' : 'ROLLBACK')
    index.finish(committed)
    // A rolled-back row may still be found: its rows are not there, and whoever asks looks at the rows.
    if (committed) {
      for (const [hash, at] of added) truth.set(hash, [...(truth.get(hash) ?? []), at])
      rows.push(...added)
    }
    if (next() < 0.05) {
      index = open()
      for (const [hash, at] of rows) if (at >= index.from) index.add(hash, at)
    }
    if (step % 10 === 0) {
      for (const [hash, seqs] of truth) {
        const found = lookup(db, index, hash)
        for (const at of seqs) assert.ok(found.includes(at), `row ${at} of ${hash} after step ${step}`)
      }
    }
    foldedAtMost = Math.max(foldedAtMost, Number(db.prepare('SELECT count(*) AS n FROM rows').get()?.n))
  }
  assert.ok(foldedAtMost > seq / 2, 'most of it was folded')
  assert.ok(index.from > seq - 200, 'and needs not be read at opening')
})

it('keeps up when three rows are flushed for every two noted', () => {
  const db = fresh()
  const index = createWriteBehindIndex({ db, table: 'rows', segmentRows: 64 })
  for (let seq = 1; seq <= 2_000; seq += 2) {
    index.add(seq * 7919, seq)
    index.add(seq * 104_729, seq + 1)
    index.flush(3)
    index.finish(true)
    const folded = Number(db.prepare('SELECT count(*) AS n FROM rows').get()?.n)
    assert.ok(seq + 1 - folded <= 128 + 2, `${seq + 1 - folded} rows are in memory only`)
  }
})

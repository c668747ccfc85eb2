/**
 * Durable accepts in batches of 100, over HTTP and at the gate, beside raw INSERTs of the same rows in batches of 100
 * with the same durability on the same disk (one table, one index, `synchronous=FULL`).
 *
 *     npm run bench -- accept-batch [--rounds 5] [--rows 20000]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { options } from './catalogue.ts'
import { draftOf } from './contestants/gateway.ts'
import { save } from './figures.ts'
import type { Loaded } from './load.ts'
import { start } from './process.ts'

const { rounds, rows } = options('accept-batch')
const recipients = 100_000
const batch = 100
const tomorrow = Date.now() + 86_400_000

const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
const db = new DatabaseSync(join(folder, 'raw.db'))
db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
  CREATE TABLE notifications (id TEXT PRIMARY KEY, tenant TEXT, recipient TEXT, status TEXT, due_at INTEGER,
    created_at INTEGER, body TEXT) WITHOUT ROWID`)
const insert = db.prepare('INSERT INTO notifications VALUES (?, ?, ?, ?, ?, ?, ?)')

function rawInsert(first: number): number {
  const drafts = Array.from({ length: rows }, (_, i) => draftOf(first + i, recipients, tomorrow))
  const begun = performance.now()
  for (let from = 0; from < rows; from += batch) {
    db.exec('BEGIN')
    for (let n = from; n < from + batch; n += 1) {
      const draft = drafts[n]!
      const now = Date.now()
      const id = `01K${now.toString(32)}${String(first + n).padStart(14, '0')}`
      insert.run(id, `tenant-${n % 10}`, draft.to.id, 'scheduled', tomorrow, now, JSON.stringify(draft))
    }
    db.exec('COMMIT')
  }
  return (rows / (performance.now() - begun)) * 1_000
}

const load = start('load.ts')
const host = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide' }))
const port = await host.ask<number>('port')

async function atTheGate(first: number): Promise<number> {
  const tookMs = await host.ask<number>('admit', { first, count: rows, batch, recipients, sendAt: tomorrow })
  return (rows / tookMs) * 1_000
}

async function overHttp(first: number): Promise<number> {
  const loaded = await load.ask<Loaded>('run', {
    port,
    path: '/api/v1/notifications/batch',
    connections: 8,
    total: rows,
    batch,
    first,
    recipients,
    sendAt: new Date(tomorrow).toISOString(),
  })
  if (loaded.statuses['202'] !== rows / batch) throw new Error(JSON.stringify(loaded.statuses))
  const took = loaded.acknowledged.reduce((a, b) => Math.max(a, b)) - loaded.sent[0]!
  return (rows / took) * 1_000
}

const found = { raw: [] as number[], gate: [] as number[], http: [] as number[] }
let first = 0
for (let round = -1; round < rounds; round += 1) {
  const raw = rawInsert(first)
  const gate = await atTheGate(first + rows)
  const http = await overHttp(first + 2 * rows)
  first += 3 * rows
  // The first round warms up.
  if (round < 0) continue
  found.raw.push(raw)
  found.gate.push(gate)
  found.http.push(http)
}
await Promise.all([load.stop(), host.stop()])
db.close()
rmSync(folder, { recursive: true })

const against = { name: 'raw INSERT of the same rows', figures: found.raw }
save({
  name: 'accept-batch',
  title: 'Durable accepts in batches of 100: checked, decided, counted and on disk.',
  rounds,
  comparisons: [
    { what: 'accepts in batches of 100', unit: 'rows/s', ours: found.gate, against, goal: { min: 0.4 } },
    { what: 'the same over HTTP', unit: 'rows/s', ours: found.http, against },
  ],
  notes: [
    `${rows} rows a round, 8 batches under way at once; the raw INSERT writes one after the other in one thread, JSON.stringify of the row included.`,
    'Ours carries, beyond the row: the decision rule by rule, the indexes by person and due instant, the checksum of each row, and the counts.',
  ],
})

/**
 * The outbox of the delivery log: a row for the changes of state of one transaction, written by that very transaction.
 * Rows are numbered by their entries, so that the size of the outbox is known without reading it.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { LogRecord, OutboxRow } from '../../../ports/delivery-log.ts'
import { joinedText, type LogText } from '../../log-records.ts'
import { checksum, checksumOf, type Readable, RowDamage } from '../codec/checksum.ts'

export interface OutboxWrites {
  /** Adds a row for the changes of this transaction. */
  put(texts: readonly LogText[]): void
  /** Takes back the numbers of a transaction that was not committed. */
  finish(committed: boolean): void
  remove(positions: readonly number[]): void
  /** The number of entries that wait. */
  size(): number
}

export function prepareOutboxWrites(db: DatabaseSync): OutboxWrites {
  const insert = db.prepare('INSERT INTO outbox VALUES (?, ?, ?, ?)')
  const removed = db.prepare('DELETE FROM outbox WHERE seq IN (SELECT value FROM json_each(?))')
  const oldest = db.prepare('SELECT seq FROM outbox ORDER BY seq LIMIT 1')
  const last = db.prepare('SELECT seq + entries AS next FROM outbox ORDER BY seq DESC LIMIT 1').get()
  let next = Number(last?.next ?? 1)
  let added = 0
  return {
    put(texts) {
      if (texts.length === 0) return
      const { text, entries } = joinedText(texts)
      insert.run(next + added, entries, text, checksumOf(text))
      added += entries
    },
    finish(committed) {
      if (committed) next += added
      added = 0
    },
    remove: (positions) => void removed.run(JSON.stringify(positions)),
    size() {
      const first = oldest.get()?.seq
      return first === undefined ? 0 : next - Number(first)
    },
  }
}

/** Rows of the outbox, and the damage of those that cannot be read. */
export interface FoundRows {
  readonly rows: readonly OutboxRow[]
  readonly damaged: readonly string[]
}

/** Prepares the reading of some rows behind a position, oldest first. */
function prepareRows(db: DatabaseSync): (after: number, limit: number) => FoundRows {
  const select = db.prepare('SELECT seq, entries, body, sum FROM outbox WHERE seq > ? ORDER BY seq LIMIT 1')
  return (after, limit) => {
    const rows: OutboxRow[] = []
    const damaged: string[] = []
    let [position, found] = [after, 0]
    for (let row = select.get(position); row !== undefined; row = select.get(position)) {
      position = Number(row.seq)
      const entries = Number(row.entries)
      rows.push({ position, entries, records: recordsOf(row.body as string, row.sum, position, damaged) })
      found += entries
      if (found >= limit) break
    }
    return { rows, damaged }
  }
}

function recordsOf(body: string, sum: unknown, seq: number, damaged: string[]): readonly LogRecord[] {
  try {
    checksum(body, sum, `row ${seq} of the outbox`)
    return JSON.parse(body) as readonly LogRecord[]
  } catch (error) {
    if (!(error instanceof RowDamage)) throw error
    damaged.push(error.what)
    return []
  }
}

export function prepareOutboxReads(db: DatabaseSync) {
  const rows = prepareRows(db)
  return { outbox: (limit: number): FoundRows => rows(0, limit) }
}

/** Entries of a page of a move. */
const pageMax = 500

/** Reads the whole outbox. */
export function* outboxPages(db: DatabaseSync): Generator<Readable<LogRecord>> {
  const read = prepareRows(db)
  for (let page = read(0, pageMax); page.rows.length > 0; page = read(page.rows.at(-1)!.position, pageMax))
    yield { found: page.rows.flatMap(({ records }) => records), damaged: page.damaged }
}

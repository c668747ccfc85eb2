/**
 * The outbox of the delivery log: a row for the changes of state of one transaction, written by that very transaction.
 * Rows are numbered by their entries. They are counted once, with the first question for the size, and then added up:
 * an erasure stays behind when what is around it is given up, so that the numbers have gaps.
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
  const remove = db.prepare(
    'DELETE FROM outbox WHERE seq IN (SELECT value FROM json_each(?)) RETURNING entries',
  )
  const sum = db.prepare('SELECT coalesce(sum(entries), 0) AS entries FROM outbox')
  const last = db.prepare('SELECT seq + entries AS next FROM outbox ORDER BY seq DESC LIMIT 1').get()
  let next = Number(last?.next ?? 1)
  let added = 0
  let removed = 0
  let waiting: number | undefined
  return {
    put(texts) {
      if (texts.length === 0) return
      const { text, entries } = joinedText(texts)
      insert.run(next + added, entries, text, checksumOf(text))
      added += entries
    },
    finish(committed) {
      if (committed) {
        next += added
        if (waiting !== undefined) waiting += added - removed
      }
      added = 0
      removed = 0
    },
    remove(positions) {
      for (const { entries } of remove.all(JSON.stringify(positions))) removed += Number(entries)
    },
    size() {
      waiting ??= Number(sum.get()!.entries)
      return waiting
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

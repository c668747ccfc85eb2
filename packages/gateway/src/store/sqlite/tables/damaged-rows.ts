/**
 * Rows whose check sum is wrong. Each is named once and left out; a notification that has not ended becomes a dead
 * letter with the cause `poison`, of which nothing is kept that may have been changed on the disk: neither address nor
 * content, so that nothing of it is ever sent.
 */
import type { Channel, Decision, Move, Notification } from '../../../model.ts'
import { isFinal } from '../../../model.ts'
import { RowDamage } from '../codec/checksum.ts'
import { statusOf } from '../codec/codes.ts'
import type { LongRow, Row, ShortRow } from '../codec/rows.ts'
import { shortAt } from '../codec/rows.ts'

export interface DamagedRow {
  /** The row in words. */
  readonly what: string
  /** What makes a dead letter of it; absent where it has ended, or is no notification. */
  readonly move?: Move
}

export interface DamagedRows {
  /** Those that can be read; the others are told. */
  read<T>(rows: readonly Row[], reader: (row: Row) => T): readonly T[]
  /** Tells of a row that somebody else could not read. */
  note(what: string): void
}

/** So many are remembered, so that each is told once. */
const rememberedMax = 10_000

export function createDamagedRows(tell: (row: DamagedRow) => void, now: () => number): DamagedRows {
  const told = new Set<string>()

  function note(what: string, row?: Row): void {
    if (told.has(what) || told.size >= rememberedMax) return
    told.add(what)
    const move = row === undefined ? undefined : poisoned(row, now())
    tell(move === undefined ? { what } : { what, move })
  }

  return {
    note: (what) => note(what),
    read(rows, reader) {
      const found = []
      for (const row of rows) {
        try {
          found.push(reader(row))
        } catch (error) {
          // A sum may be right by chance, and a text no JSON all the same.
          if (!(error instanceof RowDamage || error instanceof SyntaxError || error instanceof RangeError))
            throw error
          note(error instanceof RowDamage ? error.what : `notification ${row[1]}`, row)
        }
      }
      return found
    },
  }
}

const revisionMax = 1_000_000

function poisoned(row: Row, now: number): Move | undefined {
  const [id, tenant, recipient, channel, , category, createdAt, , , , , shared] = row.slice(
    1,
    shortAt,
  ) as unknown as LongRow
  const [code, revision, dueAt, , , , , , , platform] = row.slice(shortAt) as unknown as ShortRow
  const status = statusIn(code)
  if (status === undefined || isFinal(status) || !(revision >= 1 && revision < revisionMax)) return undefined
  const decision: Decision = { outcome: 'send', policyVersion: '', rules: [] }
  const before: Notification = {
    id,
    tenant,
    module: 'unknown',
    to: { id: recipient },
    channel: channel as Channel,
    category,
    priority: 'normal',
    createdAt,
    fingerprint: '',
    status,
    dueAt,
    decision: platform === 1 && status === 'scheduled' ? { ...decision, reason: 'tenant_limit' } : decision,
    attempts: 0,
    timeline: [{ at: createdAt, status: 'accepted' }],
    omitted: revision - 1,
    ...(shared === null ? {} : { shared: { id: shared, bytes: 0 } }),
  }
  const events = [
    { at: now, status: 'queued' },
    { at: now, status: 'dead', reason: 'poison', detail: 'its row in the store was damaged' },
  ] as const
  const after: Notification = {
    ...before,
    status: 'dead',
    // Another object, so that the whole row is written anew.
    decision,
    dueAt: Number.MAX_SAFE_INTEGER,
    timeline: [...before.timeline, ...events],
  }
  return { before: { ...before, decision: { ...before.decision } }, after, events }
}

function statusIn(code: number) {
  try {
    return statusOf(code)
  } catch {
    return undefined
  }
}

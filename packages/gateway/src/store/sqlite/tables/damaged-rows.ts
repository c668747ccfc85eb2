/**
 * Handles rows whose checksum is wrong. Each is reported once and left out; a notification that has not ended becomes
 * a dead letter with the cause `poison`, without any field that may have changed on the disk: neither address nor
 * content, so that nothing of it is ever sent.
 */
import type { Channel, Decision, Move, Notification } from '../../../model.ts'
import { isFinal } from '../../../model.ts'
import { statusOf } from '../../status-codes.ts'
import { RowDamage } from '../codec/checksum.ts'
import type { LongRow, Row, ShortRow } from '../codec/rows.ts'
import { shortAt } from '../codec/rows.ts'

export interface DamagedRow {
  /** A description of the row. */
  readonly what: string
  /** The move that makes it a dead letter; absent where it has ended, or is no notification. */
  readonly move?: Move
}

export interface DamagedRows {
  /** Decodes the readable rows; the others are reported. */
  read<T>(rows: readonly Row[], reader: (row: Row) => T): readonly T[]
  /** Reports a row that another reader could not decode. */
  note(what: string): void
}

/** The maximum number of rows remembered, so that each is reported once. */
const rememberedMax = 10_000

export function createDamagedRows(tell: (row: DamagedRow) => void, now: () => number): DamagedRows {
  const reported = new Set<string>()

  function note(what: string, row?: Row): void {
    if (reported.has(what) || reported.size >= rememberedMax) return
    reported.add(what)
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
          // A checksum may match by chance although the text is no JSON.
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

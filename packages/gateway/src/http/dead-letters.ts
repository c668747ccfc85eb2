/**
 * Pages of dead letters: notifications, the oldest first, and behind them the records of topics that could not be
 * accepted, in the order of keeping. A record has no channel and no recipient: it could not be read.
 */
import type { Notification } from '../model.ts'
import type { IntakeRecord, PoisonRecord } from '../ports/intake.ts'
import type { DeadLetterQuery, Page, Store } from '../ports.ts'
import { iso } from './answer.ts'

/** Records of one page at most: each may have 64 KiB. */
const recordsMax = 20
/** The cursor of a page that begins behind a record; others are the store's own. */
const recordCursor = /^record:(\d{1,15})$/

export interface DeadLetterStore {
  readonly deadLetters: Store['deadLetters']
  readonly intake: Pick<IntakeRecord, 'poison'>
}

export interface DeadLetterPage extends Page<Notification> {
  readonly records: readonly PoisonRecord[]
}

export async function readDeadLetters(
  { deadLetters, intake }: DeadLetterStore,
  query: DeadLetterQuery,
): Promise<DeadLetterPage> {
  const { cause, channel, tenant, cursor, limit } = query
  const behind = recordCursor.exec(cursor ?? '')?.[1]
  const page = behind === undefined ? await deadLetters(query) : { items: [], nextCursor: null }
  const hasRecords = (cause === undefined || cause === 'poison') && channel === undefined
  if (page.nextCursor !== null || !hasRecords) return { ...page, records: [] }
  const room = limit - page.items.length
  const found = await intake.poison({
    limit: Math.max(1, Math.min(room, recordsMax)),
    ...(tenant === undefined ? {} : { tenant }),
    ...(behind === undefined ? {} : { cursor: behind }),
  })
  if (room === 0) return { ...page, records: [], nextCursor: found.items.length === 0 ? null : 'record:0' }
  const nextCursor = found.nextCursor === null ? null : `record:${found.nextCursor}`
  return { items: page.items, records: found.items, nextCursor }
}

/** The answer of a record: like a dead notification as far as it has the same fields. */
export function recordAnswer(
  { tenant, topic, partition, offset, size, bytes, detail, at }: PoisonRecord,
  aheadMs: number,
): object {
  return {
    tenant: tenant ?? null,
    status: 'dead',
    record: { topic, partition, offset, size, bytes: Buffer.from(bytes).toString('base64') },
    timeline: [{ at: iso(at + aheadMs), status: 'dead', reason: 'poison', detail }],
  }
}

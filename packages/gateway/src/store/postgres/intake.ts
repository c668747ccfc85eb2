/** The record of intakes on PostgreSQL. Its statements may be repeated, so they run beside the writing connection. */
import type { IntakePosition, IntakeRecord, PoisonRecord } from '../../ports/intake.ts'
import type { Db } from './connection.ts'

/** Rows that are removed in one transaction. */
const pruneSlice = 100

/** Rows are locked in the order of their keys, so two processes never wait for each other. */
export const writePositions = `INSERT INTO intake_position AS p (topic_id, partition, next, ahead)
  SELECT topic_id, partition, next, ahead FROM json_to_recordset($1)
    AS x(topic_id text, partition int, next bigint, ahead bigint[]) ORDER BY topic_id, partition
  ON CONFLICT (topic_id, partition) DO UPDATE SET next = greatest(p.next, excluded.next),
    ahead = ARRAY(SELECT DISTINCT o FROM unnest(p.ahead || excluded.ahead) AS o
      WHERE o >= greatest(p.next, excluded.next) ORDER BY o)`

export const positionRow = ({ topicId, partition, next, ahead }: IntakePosition) => ({
  topic_id: topicId,
  partition,
  next,
  ahead: `{${ahead.join(',')}}`,
})

export interface PositionRow {
  readonly topic_id: string
  readonly partition: number
  readonly next: number
  /** The driver leaves the numbers of such a list as text. */
  readonly ahead: readonly string[]
}

export const positionOf = ({ topic_id, partition, next, ahead }: PositionRow): IntakePosition => ({
  topicId: topic_id,
  partition,
  next,
  ahead: ahead.map(Number),
})

export const writePoison = `INSERT INTO poison (topic_id, partition, at_offset, topic, tenant, at, detail, bytes, size)
  SELECT topic_id, partition, at_offset, topic, tenant, at, detail, decode(bytes, 'base64'), size
    FROM json_to_recordset($1) AS x(n int, topic_id text, partition int, at_offset bigint, topic text, tenant text,
      at bigint, detail text, bytes text, size int)
  ORDER BY n ON CONFLICT DO NOTHING`

/** A text of PostgreSQL holds neither a NUL nor half of a character. */
const storable = (text: string): string => text.replaceAll('\0', '\u{fffd}').toWellFormed()

export const poisonRow = (
  { topicId, partition, offset, topic, tenant, at, detail, bytes, size }: PoisonRecord,
  n: number,
) => ({
  n,
  topic_id: topicId,
  partition,
  at_offset: offset,
  topic,
  tenant: tenant === undefined ? null : storable(tenant),
  at,
  detail: storable(detail),
  bytes: Buffer.from(bytes).toString('base64'),
  size,
})

export interface PoisonRow {
  readonly seq: number
  readonly topic_id: string
  readonly partition: number
  readonly at_offset: number
  readonly topic: string
  readonly tenant: string | null
  readonly at: number
  readonly detail: string
  readonly bytes: Buffer
  readonly size: number
}

export const poisonOf = ({
  topic_id,
  partition,
  at_offset,
  topic,
  tenant,
  ...row
}: PoisonRow): PoisonRecord => ({
  topicId: topic_id,
  partition,
  offset: at_offset,
  topic,
  ...(tenant === null ? {} : { tenant }),
  detail: row.detail,
  bytes: Uint8Array.from(row.bytes),
  size: row.size,
  at: row.at,
})

export function createIntake(db: Db): IntakeRecord {
  return {
    async positions(topicId) {
      const rows = await db.query<PositionRow>(
        'SELECT topic_id, partition, next, ahead FROM intake_position WHERE topic_id = $1 ORDER BY partition',
        [topicId],
      )
      return rows.map(positionOf)
    },
    async advance(positions) {
      if (positions.length === 0) return
      await db.query(writePositions, [JSON.stringify(positions.map(positionRow))])
    },
    async keepPoison(records) {
      if (records.length === 0) return
      await db.query(writePoison, [JSON.stringify(records.map(poisonRow))])
    },
    async poison({ tenant, cursor = '0', limit }) {
      const rows = await db.query<PoisonRow>(
        `SELECT seq, topic_id, partition, at_offset, topic, tenant, at, detail, bytes, size FROM poison
          WHERE seq > $1 ${tenant === undefined ? '' : 'AND tenant = $3'} ORDER BY seq LIMIT $2`,
        [Number(cursor), limit, ...(tenant === undefined ? [] : [tenant])],
      )
      const nextCursor = rows.length < limit ? null : String(rows.at(-1)!.seq)
      return { items: rows.map(poisonOf), nextCursor }
    },
    async countPoison() {
      const rows = await db.query<{ tenant: string | null; count: number; oldest_at: number }>(
        'SELECT tenant, count(*) AS count, min(at) AS oldest_at FROM poison GROUP BY tenant',
      )
      return rows.map(({ tenant, count, oldest_at }) => ({
        ...(tenant === null ? {} : { tenant }),
        count,
        oldestAt: oldest_at,
      }))
    },
    async prunePoison(before) {
      for (let removed = 0; ; ) {
        const rows = await db.query(
          `DELETE FROM poison WHERE seq = ANY(ARRAY(SELECT seq FROM poison WHERE at < $1
            ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1 AS one`,
          [before, pruneSlice],
        )
        removed += rows.length
        if (rows.length < pruneSlice) return removed
      }
    },
  }
}

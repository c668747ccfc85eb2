/** How far intakes have taken their partitions, and the records that could not be accepted. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import {
  type IntakePosition,
  joined,
  type PoisonCount,
  type PoisonQuery,
  type PoisonRecord,
} from '../../../ports/intake.ts'
import { checksum, checksumOf, type Readable, readable } from '../codec/checksum.ts'

export interface PoisonPage extends Readable<PoisonRecord> {
  readonly nextCursor: string | null
}

type Row = Record<string, SQLOutputValue>

interface PoisonBody {
  readonly topic: string
  readonly detail: string
  /** In base64. */
  readonly bytes: string
  readonly size: number
}

const columns = 'seq, topic_id, partition, at_offset, tenant, at, body, sum'

const positionText = (topicId: unknown, partition: unknown, next: unknown, ahead: unknown): string =>
  `${topicId} ${partition} ${next} ${ahead}`

function positionOf({ topic_id, partition, next, ahead, sum }: Row): IntakePosition {
  // A row that was written before there were sums has none.
  if (sum !== null)
    checksum(
      positionText(topic_id, partition, next, ahead),
      sum!,
      `the position in partition ${partition} of the topic ${topic_id}`,
    )
  return {
    topicId: topic_id as string,
    partition: partition as number,
    next: next as number,
    ahead: JSON.parse(ahead as string) as number[],
  }
}

function poisonOf({ seq, topic_id, partition, at_offset, tenant, at, body, sum }: Row): PoisonRecord {
  checksum(body as string, sum!, `poison ${seq}`)
  const { topic, detail, bytes, size } = JSON.parse(body as string) as PoisonBody
  return {
    topicId: topic_id as string,
    partition: partition as number,
    offset: at_offset as number,
    topic,
    ...(tenant === null ? {} : { tenant: tenant as string }),
    detail,
    bytes: Uint8Array.from(Buffer.from(bytes, 'base64')),
    size,
    at: at as number,
  }
}

/** Reads all positions, for a move of the whole record. */
export const intakePositions = (db: DatabaseSync): Readable<IntakePosition> =>
  readable(db.prepare('SELECT * FROM intake_position ORDER BY topic_id, partition').all(), positionOf)

/** Reads the records that could not be accepted, in the order of keeping, for a move of the whole record. */
export function* poisonPages(db: DatabaseSync, max: number): Generator<Readable<PoisonRecord>> {
  const following = db.prepare(`SELECT ${columns} FROM poison WHERE seq > ? ORDER BY seq LIMIT ?`)
  for (let rows = following.all(0, max); rows.length > 0; rows = following.all(rows.at(-1)!.seq!, max))
    yield readable(rows, poisonOf)
}

/** Prepares the questions. */
export function prepareIntakeReads(db: DatabaseSync) {
  const ofTopic = db.prepare('SELECT * FROM intake_position WHERE topic_id = ? ORDER BY partition')
  const all = db.prepare(`SELECT ${columns} FROM poison WHERE seq > ? ORDER BY seq LIMIT ?`)
  const ofTenant = db.prepare(
    `SELECT ${columns} FROM poison WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?`,
  )
  const counts = db.prepare('SELECT tenant, count(*) AS count, min(at) AS oldest FROM poison GROUP BY tenant')
  return {
    countPoison: (): readonly PoisonCount[] =>
      counts.all().map(({ tenant, count, oldest }) => ({
        ...(tenant === null ? {} : { tenant: tenant as string }),
        count: count as number,
        oldestAt: oldest as number,
      })),
    intakePositions: (topicId: string): Readable<IntakePosition> =>
      readable(ofTopic.all(topicId), positionOf),
    poison({ tenant, cursor = '0', limit }: PoisonQuery): PoisonPage {
      const after = Number(cursor)
      const rows = tenant === undefined ? all.all(after, limit) : ofTenant.all(tenant, after, limit)
      const nextCursor = rows.length < limit ? null : String(rows.at(-1)!.seq)
      return { ...readable(rows, poisonOf), nextCursor }
    },
  }
}

/** Prepares the writes. */
export function prepareIntakeWrites(db: DatabaseSync) {
  const position = db.prepare('SELECT * FROM intake_position WHERE topic_id = ? AND partition = ?')
  const put = db.prepare('INSERT OR REPLACE INTO intake_position VALUES (?, ?, ?, ?, ?)')
  const insert = db.prepare(`INSERT OR IGNORE INTO poison
    (topic_id, partition, at_offset, tenant, at, body, sum) VALUES (?, ?, ?, ?, ?, ?, ?)`)
  // Rows are in the order of keeping.
  const prune = db.prepare(`DELETE FROM poison WHERE seq IN
    (SELECT seq FROM (SELECT seq, at FROM poison ORDER BY seq LIMIT ?) WHERE at < ?)`)
  return {
    advanceIntake(positions: readonly IntakePosition[]): void {
      for (const each of positions) {
        const rows = position.all(each.topicId, each.partition)
        const [known = each] = readable(rows, positionOf).found
        const { topicId, partition, next, ahead } = joined(each, known)
        const offsets = JSON.stringify(ahead)
        const sum = checksumOf(positionText(topicId, partition, next, offsets))
        put.run(topicId, partition, next, offsets, sum)
      }
    },
    keepPoison(records: readonly PoisonRecord[]): void {
      for (const { topicId, partition, offset, topic, tenant = null, ...record } of records) {
        const { detail, bytes, size, at } = record
        const body = JSON.stringify({ topic, detail, bytes: Buffer.from(bytes).toString('base64'), size })
        insert.run(topicId, partition, offset, tenant, at, body, checksumOf(body))
      }
    },
    /** Removes at most `max` records that were kept before; returns their number. */
    prunePoison: (before: number, max: number): number => Number(prune.run(max, before).changes),
  }
}

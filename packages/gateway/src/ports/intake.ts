/**
 * The store's port for intakes (Kafka): how far each partition has been taken, and the records that could not be read.
 * An acceptance itself is committed once by a stored answer that is named after the record's position (decision 0040);
 * this record keeps a restart from reading a topic from its beginning.
 */

/** How far a partition of a topic has been taken. */
export interface IntakePosition {
  /** The topic's id and not its name: a topic that was deleted and made anew begins anew. */
  readonly topicId: string
  readonly partition: number
  /** Every record before this offset is accepted or kept as poison. */
  readonly next: number
  /** Offsets from `next` on that are accepted or kept as poison too: the caller bounds their number by its window. */
  readonly ahead: readonly number[]
}

/** A record that cannot be accepted, however often it is tried. */
export interface PoisonRecord {
  readonly topicId: string
  readonly partition: number
  readonly offset: number
  readonly topic: string
  /** The tenant that the record names; absent where none can be read. */
  readonly tenant?: string
  /** The fault, in a sentence. */
  readonly detail: string
  /** The beginning of the record, at most `poisonBytesMax`. */
  readonly bytes: Uint8Array
  /** Bytes of the whole record. */
  readonly size: number
  /** The instant at which it was kept, epoch ms. */
  readonly at: number
}

/** Bytes of a record that cannot be accepted which are kept at most: enough to see what is wrong with it. */
export const poisonBytesMax = 65_536

/** Kept records of one tenant. */
export interface PoisonCount {
  /** Absent for the records that name none. */
  readonly tenant?: string
  readonly count: number
  /** The instant at which the first of them was kept, epoch ms. */
  readonly oldestAt: number
}

export interface PoisonQuery {
  /** @defaultValue all tenants, and the records that name none */
  readonly tenant?: string
  /** A whole number from 0 on, as the page before named it. */
  readonly cursor?: string
  readonly limit: number
}

export interface IntakeRecord {
  /** Reads the positions of a topic, in the order of the partitions. */
  positions(topicId: string): Promise<readonly IntakePosition[]>
  /**
   * Records how far partitions have been taken; resolves when it is on disk. It joins what is on record: the later
   * `next` stays, and the offsets ahead of both. So a consumer that has lost its partition takes nothing back.
   */
  advance(positions: readonly IntakePosition[]): Promise<void>
  /** Keeps records that cannot be accepted; resolves when they are on disk. One that is kept already stays as it is. */
  keepPoison(records: readonly PoisonRecord[]): Promise<void>
  /** Lists kept records in the order of keeping. */
  poison(query: PoisonQuery): Promise<{
    readonly items: readonly PoisonRecord[]
    readonly nextCursor: string | null
  }>
  /** Counts kept records by tenant. */
  countPoison(): Promise<readonly PoisonCount[]>
  /**
   * Removes records that were kept before the instant.
   * @returns the number of records that were removed
   */
  prunePoison(before: number): Promise<number>
}

/** Joins two positions of one partition. */
export function joined(one: IntakePosition, other: IntakePosition): IntakePosition {
  const next = Math.max(one.next, other.next)
  const ahead = new Set([...one.ahead, ...other.ahead].filter((offset) => offset >= next))
  return { ...one, next, ahead: [...ahead].sort((a, b) => a - b) }
}

/** The record of intakes in the in-memory store. */
import {
  type IntakePosition,
  type IntakeRecord,
  joined,
  type PoisonCount,
  type PoisonQuery,
  type PoisonRecord,
} from '../../ports/intake.ts'

const partitionOf = ({ topicId, partition }: Pick<IntakePosition, 'topicId' | 'partition'>): string =>
  JSON.stringify([topicId, partition])
const placeOf = (record: PoisonRecord): string =>
  JSON.stringify([record.topicId, record.partition, record.offset])

interface Kept {
  /** The order of keeping. */
  readonly seq: number
  readonly record: PoisonRecord
}

export class MemoryIntake implements IntakeRecord {
  readonly #positions = new Map<string, IntakePosition>()
  readonly #poison = new Map<string, Kept>()
  #kept = 0

  async positions(topicId: string): Promise<readonly IntakePosition[]> {
    return [...this.#positions.values()]
      .filter((position) => position.topicId === topicId)
      .sort((a, b) => a.partition - b.partition)
  }

  async advance(positions: readonly IntakePosition[]): Promise<void> {
    for (const position of positions) {
      const key = partitionOf(position)
      this.#positions.set(key, joined(position, this.#positions.get(key) ?? position))
    }
  }

  async keepPoison(records: readonly PoisonRecord[]): Promise<void> {
    for (const record of records) {
      if (this.#poison.has(placeOf(record))) continue
      this.#kept += 1
      this.#poison.set(placeOf(record), { seq: this.#kept, record })
    }
  }

  async poison({ tenant, cursor = '0', limit }: PoisonQuery): ReturnType<IntakeRecord['poison']> {
    const page = [...this.#poison.values()]
      .filter(({ seq, record }) => seq > Number(cursor) && (tenant === undefined || record.tenant === tenant))
      .slice(0, limit)
    const nextCursor = page.length < limit ? null : String(page.at(-1)!.seq)
    return { items: page.map(({ record }) => record), nextCursor }
  }

  async countPoison(): Promise<readonly PoisonCount[]> {
    const records = [...this.#poison.values()].map(({ record }) => record)
    return [...Map.groupBy(records, ({ tenant }) => tenant)].map(([tenant, own]) => ({
      ...(tenant === undefined ? {} : { tenant }),
      count: own.length,
      oldestAt: Math.min(...own.map(({ at }) => at)),
    }))
  }

  async prunePoison(before: number): Promise<number> {
    let rows = 0
    for (const [place, { record }] of this.#poison)
      if (record.at < before && this.#poison.delete(place)) rows += 1
    return rows
  }
}

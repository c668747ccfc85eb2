/** The outbox of the delivery log in the in-memory store. */
import { entriesOf, type LogRecord, type Outbox, type OutboxRow } from '../../ports/delivery-log.ts'

export class MemoryOutbox implements Outbox {
  readonly #rows = new Map<number, OutboxRow>()
  #last = 0

  put(records: readonly LogRecord[]): void {
    if (records.length === 0) return
    this.#last += 1
    const entries = records.reduce((sum, record) => sum + entriesOf(record), 0)
    this.#rows.set(this.#last, { position: this.#last, entries, records })
  }

  async read(limit: number): Promise<readonly OutboxRow[]> {
    const found: OutboxRow[] = []
    let entries = 0
    for (const row of this.#rows.values()) {
      if (entries >= limit) break
      found.push(row)
      entries += row.entries
    }
    return found
  }

  async remove(positions: readonly number[]): Promise<void> {
    for (const position of positions) this.#rows.delete(position)
  }

  async size(): Promise<number> {
    return [...this.#rows.values()].reduce((sum, { entries }) => sum + entries, 0)
  }
}

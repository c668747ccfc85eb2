/** The outbox of the delivery log in the embedded store: read beside the writes, removed in transactions of their own. */
import type { Outbox } from '../../ports/delivery-log.ts'
import type { EngineClient } from './worker/engine-client.ts'

export interface SqliteOutboxOptions {
  readonly ask: EngineClient['ask']
  readonly read: EngineClient['read']
  /** Hears of each row that cannot be read. */
  readonly onDamaged: (what: string) => void
}

export function createSqliteOutbox({ ask, read, onDamaged }: SqliteOutboxOptions): Outbox {
  return {
    async read(limit) {
      const { rows, damaged } = await read('outbox', limit)
      for (const what of damaged) onDamaged(what)
      return rows
    },
    remove: (positions) => ask('outboxRemove', positions),
    size: () => ask('outboxSize'),
  }
}

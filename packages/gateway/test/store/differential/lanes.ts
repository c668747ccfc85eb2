/** Where sequences run one after the other: each opens the model and an engine that have nothing on record. */
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import { createMemoryRecord, createMemoryStore } from '../../../src/store/memory/memory.ts'
import { createSqliteStore } from '../../../src/store/sqlite/sqlite.ts'
import { openAt, schemaForSequences } from '../postgres/database.ts'
import type { StoreSequence } from './sequence.ts'

export interface Lane {
  /** Opens both stores, behind what the sequence before has left. */
  open(): Promise<Pick<StoreSequence, 'model' | 'engine' | 'without'>>
}

/** Ms that a right to send lasts: as on PostgreSQL. */
const rightMs = 250

/** A schema of its own on PostgreSQL, beside the record of a fleet in memory. */
export function postgresLane(name: string): Lane {
  const schema = schemaForSequences(name)
  return {
    async open() {
      const url = await schema()
      const model = createMemoryRecord(rightMs).open('1')
      return { model, engine: await openAt(url, stillClock(epoch), '1'), without: [] }
    },
  }
}

/**
 * A database of SQLite in memory, beside the store of one process, without the calls to which SQLite answers in its own way:
 * its process knows by itself what it may send; retention goes by the acceptance and the call of a notification, and not by
 * its last change; an erasure is of what was accepted before its first try; the earliest instant at which something is due
 * may be that of a notification of a full tenant that has moved on since.
 */
export const sqliteLane = (_name: string): Lane => ({
  open: async () => ({
    model: createMemoryStore(),
    engine: createSqliteStore({ path: ':memory:', clock: stillClock(epoch), thread: false }),
    without: ['rights', 'retention', 'erasure', 'earliest'],
  }),
})

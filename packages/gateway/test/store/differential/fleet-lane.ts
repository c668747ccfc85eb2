/** Where sequences of several processes run one after the other: a schema on PostgreSQL, beside a record in memory. */
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import { createMemoryRecord } from '../../../src/store/memory/memory.ts'
import { createReadPool } from '../../../src/store/postgres/connection.ts'
import { createTenantRecords } from '../../../src/store/postgres/fleet/tenant-records.ts'
import { rightMs } from '../../../src/store/postgres/postgres.ts'
import { addressOf, openAt, schemaForSequences } from '../postgres/database.ts'
import type { Member } from './fleet-pair.ts'
import type { FleetPair } from './fleet-world.ts'

interface OpenFleets extends FleetPair {
  /** Ends all processes of a sequence. */
  close(): Promise<void>
}

export interface FleetLane {
  /** Opens both records, behind what the sequence before has left. */
  open(): Promise<OpenFleets>
}

export function fleetLane(name: string): FleetLane {
  const schema = schemaForSequences(name)
  return { open: async () => openFleets(await schema()) }
}

function openFleets(url: string): OpenFleets {
  const record = createMemoryRecord(rightMs)
  const server = createReadPool(addressOf(url))
  const joined: Member[] = []
  return {
    records: [record.records, createTenantRecords(server)],
    async join() {
      const id = String(joined.length + 1)
      const clock = stillClock(epoch)
      const engine = await openAt(url, clock, id)
      const member = { id, model: record.open(id), engine, setClock: clock.set }
      joined.push(member)
      return member
    },
    async kill({ id }) {
      record.declareDead(id)
      await server.query('SELECT declare_dead($1)', [id])
    },
    async settleDead({ id }) {
      const [row] = await server.query<{ done: boolean }>('SELECT settle_dead($1) AS done', [id])
      return [record.settleDead(id), row!.done]
    },
    async close() {
      // A dead process may not close cleanly.
      await Promise.allSettled(joined.map(({ engine }) => engine.close()))
      await server.close()
    },
  }
}

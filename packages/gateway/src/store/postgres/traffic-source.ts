/** Reads the traffic of a schema beside the gateways that write it: by one connection, which reads only. */
import { SluiceError } from '../../errors.ts'
import type { Recipient } from '../../model.ts'
import type { TrafficSource } from '../../ports/traffic.ts'
import type { PostgresAddress } from './address.ts'
import { readRowsFor, type WholeRow } from './codec.ts'
import { type Connection, connect } from './connection.ts'
import { createFeedback } from './feedback.ts'
import { inspect } from './migrate.ts'
import { startFault, storeFault } from './postgres-errors.ts'

/** Rows of a page: some 10 ms. */
const pageMax = 500

/** @throws SluiceError INVALID_CONFIG where the schema is missing or of another version */
export async function openPostgresTraffic(address: PostgresAddress): Promise<TrafficSource> {
  let connection: Connection | undefined
  try {
    connection = await connect(address)
    await connection.query('SET default_transaction_read_only = on')
    const { schemaVersion, known } = await inspect(connection, address)
    if (schemaVersion !== known)
      throw new SluiceError(
        'INVALID_CONFIG',
        `The schema "${address.schema}" at ${address.shown} ${schemaVersion === undefined ? 'does not exist' : `has ${schemaVersion} of ${known} steps`}: start a gateway of this version on it once.`,
      )
    return sourceOf(connection, address)
  } catch (error) {
    await connection?.close()
    throw startFault(error, address)
  }
}

function sourceOf(connection: Connection, address: PostgresAddress): TrafficSource {
  // This reader is no member: what a member is sending is shown as `sending`.
  const read = readRowsFor('0')
  const query = async <Row extends object>(text: string, values: readonly unknown[] = []) => {
    try {
      return await connection.query<Row>(text, values)
    } catch (error) {
      throw storeFault(error, address)
    }
  }
  // It finds no notification by a report.
  const record = createFeedback({ query }, (_, recipient) => recipient)
  return {
    async tenants() {
      const rows = await query<{ tenant: string }>('SELECT DISTINCT tenant FROM tally ORDER BY tenant', [])
      return rows.map(({ tenant }) => tenant)
    },
    async page({ tenant, from, to, cursor }) {
      const blank = cursor?.indexOf(' ') ?? -1
      const [at, id] =
        cursor === undefined ? [from, ''] : [Number(cursor.slice(0, blank)), cursor.slice(blank + 1)]
      const rows = await query<WholeRow>(
        `SELECT w.* FROM (SELECT id, created_at FROM notification WHERE tenant = $1
            AND (created_at, id) > ($2::bigint, $3) AND created_at < $4 ORDER BY created_at, id LIMIT $5) p
          CROSS JOIN LATERAL (SELECT * FROM whole WHERE whole.id = p.id) w ORDER BY p.created_at, p.id`,
        [tenant, at, id, to, pageMax],
      )
      const last = rows.at(-1)
      return {
        items: rows.map(read),
        nextCursor: last === undefined || rows.length < pageMax ? null : `${last.created_at} ${last.id}`,
      }
    },
    async recipients(keys) {
      const rows = await query<{ nth: number; body: Recipient }>(
        `SELECT k.nth::int AS nth, r.body FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (tenant, id, nth)
          JOIN recipient r ON r.tenant = k.tenant AND r.id = k.id`,
        [keys.map(({ tenant }) => tenant), keys.map(({ recipient }) => recipient)],
      )
      const found = new Map(rows.map(({ nth, body }) => [nth, body]))
      return keys.map((_, index) => found.get(index + 1))
    },
    feedback: (tenant, ids) => record.of(tenant, ids),
    close: () => connection.close(),
  }
}

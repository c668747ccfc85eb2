/**
 * The tables of the delivery log in Cassandra. An entry lies with all others of its recipient and month, in the order of
 * time; a second table leads from the id of a notification to its recipient. Both forget by their time to live, and are
 * compacted by windows of time, so that what is forgotten goes file by file.
 */
import type { Client } from 'cassandra-driver'

const compaction =
  "compaction = {'class': 'TimeWindowCompactionStrategy', 'compaction_window_unit': 'DAYS', 'compaction_window_size': 7}"

const tables = {
  delivery_log: `
    tenant text, recipient text, month text, at timestamp, notification_id text, seq int,
    status text, reason text, channel text, provider text, account text, attempt int, detail text,
    PRIMARY KEY ((tenant, recipient, month), at, notification_id, seq)`,
  delivery_log_by_id: `
    notification_id text PRIMARY KEY, tenant text, recipient text`,
} as const

/** The table of the entries, and the one by ids. */
export const tableOf = (keyspace: string) => `${keyspace}.delivery_log`
export const tableByIdOf = (keyspace: string) => `${keyspace}.delivery_log_by_id`

/** The statements that make the keyspace and its tables, for the guide and for the first start. */
export function schemaOf(keyspace: string, replication: string): readonly string[] {
  return [
    `CREATE KEYSPACE IF NOT EXISTS ${keyspace} WITH replication = ${replication}`,
    ...Object.entries(tables).map(
      ([name, columns]) =>
        `CREATE TABLE IF NOT EXISTS ${keyspace}.${name} (${columns.trim().replaceAll(/\s+/g, ' ')}) WITH ${compaction}`,
    ),
  ]
}

/** Finds which of the tables are missing; a user without the right to create may use those that are there. */
export async function missingTables(client: Client, keyspace: string): Promise<readonly string[]> {
  const { rows } = await client.execute(
    'SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?',
    [keyspace],
    { prepare: true },
  )
  const found = new Set(rows.map((row) => String(row.table_name)))
  return Object.keys(tables).filter((name) => !found.has(name))
}

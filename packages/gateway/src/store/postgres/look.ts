/** Looks at a server without changing anything: `sluice check` tells what a start will find. */
import type { PostgresAddress } from './address.ts'
import { type Connection, connect, type Db } from './connection.ts'
import { notDurable } from './durability.ts'
import { inspect } from './migrate.ts'
import { mayNotMigrate, noRight, onlyReads, startFault } from './postgres-errors.ts'
import { checkSessions } from './sessions.ts'

/**
 * Connects, and describes the server and the schema in a sentence.
 * @throws SluiceError INVALID_CONFIG where a start would end with it
 */
export async function lookAt(address: PostgresAddress): Promise<string> {
  const { schema, ssl } = address
  let connection: Connection | undefined
  try {
    connection = await connect(address)
    await checkSessions(connection, address)
    const { version, schemaVersion, known, missing, owner, mayMigrate } = await inspect(connection, address)
    const [session] = await connection.query<{ onlyReads: string }>(
      `SELECT current_setting('transaction_read_only') AS "onlyReads"`,
    )
    if (session!.onlyReads === 'on') throw onlyReads(address)
    if (missing.length > 0 && !mayMigrate)
      throw mayNotMigrate(address, { owner, steps: schemaVersion, all: known })
    if (missing.length === 0) await checkRights(connection, address)
    const state =
      schemaVersion === undefined
        ? 'will be created'
        : schemaVersion === known
          ? 'is up to date'
          : `has ${schemaVersion} of ${known} steps, the rest comes with the next start`
    const warning = await notDurable(connection, address)
    const found = `PostgreSQL ${version}${ssl === false ? '' : ', TLS'}; the schema "${schema}" ${state}.`
    return warning === undefined ? found : `${found} Warning: ${warning}`
  } catch (error) {
    throw startFault(error, address)
  } finally {
    await connection?.close()
  }
}

/** @throws SluiceError INVALID_CONFIG where the user lacks a right on a table, sequence or function of the schema */
async function checkRights(db: Db, address: PostgresAddress): Promise<void> {
  // CASE: the server may compare in any order, and asked of another kind `has_sequence_privilege` is an error.
  const [lacking] = await db.query<{ kind: string; name: string }>(
    `SELECT 1 AS nth, 'table' AS kind, relname AS name FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'
        AND relname <> 'migration' AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT')
          AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE'))
      UNION ALL SELECT 2, 'view', relname FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'v'
        AND NOT has_table_privilege(oid, 'SELECT')
      UNION ALL SELECT 3, 'sequence', relname FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'S'
        AND NOT CASE WHEN relkind = 'S' THEN has_sequence_privilege(oid, 'USAGE') END
      UNION ALL SELECT 4, 'function', proname FROM pg_proc WHERE pronamespace = to_regnamespace($1)
        AND NOT has_function_privilege(oid, 'EXECUTE')
      ORDER BY nth, name LIMIT 1`,
    [address.schema],
  )
  if (lacking !== undefined) throw noRight(address, `permission denied for ${lacking.kind} ${lacking.name}`)
}

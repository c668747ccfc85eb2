/** Looks at a server without changing anything: `sluice check` tells what a start will find. */
import type { PostgresAddress } from './address.ts'
import { type Connection, connect } from './connection.ts'
import { inspect } from './migrate.ts'
import { noRight, startFault } from './postgres-errors.ts'

/**
 * Connects, and describes the server and the schema in a sentence.
 * @throws SluiceError INVALID_CONFIG where a start would end with it
 */
export async function lookAt(address: PostgresAddress): Promise<string> {
  const { schema, database, ssl } = address
  let connection: Connection | undefined
  try {
    connection = await connect(address)
    const { version, schemaVersion, known } = await inspect(connection, address)
    const [rights] = await connection.query<{ creates: boolean; owns: boolean | null; exists: boolean }>(
      `SELECT has_database_privilege(current_database(), 'CREATE') AS creates,
        (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = $1) AS owns,
        EXISTS (SELECT FROM pg_namespace WHERE nspname = $1) AS exists`,
      [schema],
    )
    if (rights!.exists ? rights!.owns === false : !rights!.creates)
      throw noRight(
        address,
        `no right to create in ${rights!.exists ? `schema ${schema}` : `database ${database}`}`,
      )
    const state =
      schemaVersion === undefined
        ? 'will be created'
        : schemaVersion === known
          ? 'is up to date'
          : `has ${schemaVersion} of ${known} steps, the rest comes with the next start`
    return `PostgreSQL ${version}${ssl === false ? '' : ', TLS'}; the schema "${schema}" ${state}.`
  } catch (error) {
    throw startFault(error, address)
  } finally {
    await connection?.close()
  }
}

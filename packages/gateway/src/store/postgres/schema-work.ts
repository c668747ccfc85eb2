/**
 * The work of an owner on the schema, for `sluice migrate`: applies the missing migrations and grants a role the rights
 * to run a gateway. It works beside running gateways: a schema only grows.
 */
import { SluiceError } from '../../errors.ts'
import type { PostgresAddress } from './address.ts'
import { type Connection, connect } from './connection.ts'
import { grantsFor, inspect, migrate } from './migrate.ts'
import { mayNotMigrate, startFault } from './postgres-errors.ts'
import { checkSessions } from './sessions.ts'

export interface SchemaWorkOptions {
  /** Tells what would be done, and does nothing. */
  readonly isDryRun: boolean
  /** The role that gets the rights to run a gateway. */
  readonly role: string | undefined
}

export interface SchemaWork {
  readonly server: string
  readonly schema: string
  /** The files of the migrations that were applied, or would be. */
  readonly applied: readonly string[]
  /** The migrations of this version of Sluice. */
  readonly known: number
  /** The statements that were carried out for the role, or would be. */
  readonly grants: readonly string[]
}

/** @throws SluiceError INVALID_CONFIG where the server does not serve, or the user may not */
export async function workOnSchema(
  address: PostgresAddress,
  { isDryRun, role }: SchemaWorkOptions,
): Promise<SchemaWork> {
  const { schema } = address
  let connection: Connection | undefined
  try {
    connection = await connect(address)
    await checkSessions(connection, address)
    const { version, schemaVersion, missing, known, owner, mayMigrate } = await inspect(connection, address)
    if (missing.length > 0 && !mayMigrate)
      throw mayNotMigrate(address, { owner, steps: schemaVersion, all: known })
    const grants = role === undefined ? [] : grantsFor(address, role)
    if (role !== undefined) {
      const [found] = await connection.query('SELECT FROM pg_roles WHERE rolname = $1', [role])
      if (found === undefined)
        throw new SluiceError(
          'INVALID_CONFIG',
          `There is no role "${role}" at ${address.shown}. Create it: createuser --pwprompt ${role}.`,
        )
    }
    const applied = isDryRun ? missing : await migrate(connection, address)
    if (!isDryRun) for (const statement of grants) await connection.query(statement)
    return { server: `PostgreSQL ${version}`, schema, applied, known, grants }
  } catch (error) {
    throw startFault(error, address)
  } finally {
    await connection?.close()
  }
}

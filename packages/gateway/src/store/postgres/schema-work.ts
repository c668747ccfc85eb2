/**
 * The work of an owner on the schema, for `sluice migrate`: applies the missing migrations and grants a role the rights
 * to run a gateway. It works beside running gateways: a schema only grows.
 */
import { SluiceError } from '../../errors.ts'
import type { PostgresAddress } from './address.ts'
import { type Connection, connect, type Db } from './connection.ts'
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
  /** The role that was to get rights, where it owns the schema and has all of them. */
  readonly owner: string | undefined
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
    const owns = role === undefined ? undefined : await isOwner(connection, address, role)
    // The statements take the right from a role to say how far the schema is: its owner could not complete it any more.
    const grants = role === undefined || owns === true ? [] : grantsFor(address, role)
    const applied = isDryRun ? missing : await migrate(connection, address)
    if (!isDryRun) for (const statement of grants) await connection.query(statement)
    return { server: `PostgreSQL ${version}`, schema, applied, known, grants, owner: owns ? role : undefined }
  } catch (error) {
    throw startFault(error, address)
  } finally {
    await connection?.close()
  }
}

/**
 * True where a role owns the schema, or will own the one that is created.
 * @throws SluiceError INVALID_CONFIG where there is no such role
 */
async function isOwner(db: Db, { shown, schema }: PostgresAddress, role: string): Promise<boolean> {
  const [found] = await db.query<{ owns: boolean }>(
    `SELECT rolname = coalesce((SELECT pg_get_userbyid(relowner) FROM pg_class
        WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $2) AND relname = 'migration'), current_user) AS owns
      FROM pg_roles WHERE rolname = $1`,
    [role, schema],
  )
  if (found !== undefined) return found.owns
  throw new SluiceError(
    'INVALID_CONFIG',
    `There is no role "${role}" at ${shown}. Create it: createuser --pwprompt ${role}.`,
  )
}

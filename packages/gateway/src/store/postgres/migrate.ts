/** Brings the schema up to date, one process at a time, and checks that the server can carry it. */
import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'
import { SluiceError } from '../../errors.ts'
import type { PostgresAddress } from './address.ts'
import { type Db, lockMs } from './connection.ts'
import { mayNotMigrate } from './postgres-errors.ts'

const folder = new URL('./migrations/', import.meta.url)
/** Older servers lack what the schema uses, and have no more support. */
const oldest = 14

/** A migration takes as long as its tables are large; it is given up after an hour, ms. */
const migrationMs = 3_600_000

/** The server and the schema as they are before a start. */
export interface Inspection {
  readonly version: string
  /** Migrations that the schema has; undefined where there is none yet. */
  readonly schemaVersion: number | undefined
  /** Migrations that this version of Sluice has. */
  readonly known: number
  /** The files of the migrations that the schema lacks. */
  readonly missing: readonly string[]
  /** The owner of the schema; undefined where there is no schema. */
  readonly owner: string | undefined
  /** True where the user of this connection may create the schema or complete it. */
  readonly mayMigrate: boolean
}

const filesOf = (): readonly string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .toSorted()

/** @throws SluiceError INVALID_CONFIG where the server is too old, lacks characters, or holds a newer schema */
export async function inspect(db: Db, address: PostgresAddress): Promise<Inspection> {
  const { shown, schema } = address
  const [server] = await db.query<{
    version: number
    shownVersion: string
    encoding: string
  }>(
    `SELECT current_setting('server_version_num')::int AS version, current_setting('server_version') AS "shownVersion",
       current_setting('server_encoding') AS encoding`,
  )
  if (server!.version < oldest * 10_000)
    throw new SluiceError(
      'INVALID_CONFIG',
      `PostgreSQL at ${shown} is version ${server!.shownVersion}; Sluice needs ${oldest} or newer: upgrade the server, or use another one.`,
    )
  if (server!.encoding !== 'UTF8')
    throw new SluiceError(
      'INVALID_CONFIG',
      `The database of ${shown} has the encoding ${server!.encoding}, which lacks characters that messages have. Create another one in UTF8, and name it in "store": createdb --encoding=UTF8 --template=template0 --owner=${address.user} ${address.database}_utf8.`,
    )
  const known = filesOf().length
  const schemaVersion = await versionOf(db, schema)
  if (schemaVersion !== undefined && schemaVersion > known)
    throw newerSchema({ shown, schema }, schemaVersion, known)
  const [namespace] = await db.query<{ owner: string; may: boolean }>(
    `SELECT pg_get_userbyid(n.nspowner) AS owner, has_schema_privilege(n.oid, 'CREATE')
        AND (c.oid IS NULL OR pg_has_role(c.relowner, 'USAGE')) AS may
      FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'migration'
      WHERE n.nspname = $1`,
    [schema],
  )
  const [database] = await db.query<{ may: boolean }>(
    "SELECT has_database_privilege(current_database(), 'CREATE') AS may",
  )
  return {
    version: server!.shownVersion,
    schemaVersion,
    known,
    missing: filesOf().slice(schemaVersion ?? 0),
    owner: namespace?.owner,
    mayMigrate: namespace?.may ?? database!.may,
  }
}

const newerSchema = (
  { shown, schema }: Pick<PostgresAddress, 'shown' | 'schema'>,
  schemaVersion: number,
  known: number,
): SluiceError =>
  new SluiceError(
    'INVALID_CONFIG',
    `The schema "${schema}" at ${shown} is of a newer version of Sluice (${schemaVersion}, this one knows ${known}): run that version.`,
  )

/**
 * Completes the schema; one that is complete is left alone, without a statement that defines anything.
 *
 * @returns the files of the migrations that were applied
 * @throws SluiceError INVALID_CONFIG where the server or its schema does not serve, or the user may not complete it
 */
export async function migrate(db: Db, address: PostgresAddress): Promise<readonly string[]> {
  const { schema } = address
  const { schemaVersion, known: all, missing, owner, mayMigrate } = await inspect(db, address)
  if (missing.length === 0) return []
  if (!mayMigrate) throw mayNotMigrate(address, { owner, steps: schemaVersion, all })
  const applied: string[] = []
  await db.query('BEGIN')
  try {
    // Another process that completes it may take longer than a lock is waited for.
    await db.query('SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0')
    await db.query("SELECT pg_advisory_xact_lock(hashtext('sluice migrations'), hashtext($1))", [schema], {
      answerMs: migrationMs,
    })
    await db.query(`SET LOCAL lock_timeout = ${lockMs}`)
    // A schema that the operator has made needs no right on the database.
    const [known] = await db.query('SELECT FROM pg_namespace WHERE nspname = $1', [schema])
    if (known === undefined) await db.query(`CREATE SCHEMA "${schema}"`)
    await db.query('CREATE TABLE IF NOT EXISTS migration (version int PRIMARY KEY)')
    // Another process may have completed it while this one waited for the lock.
    const version = (await versionOf(db, schema))!
    if (version > all) throw newerSchema(address, version, all)
    for (const [index, name] of filesOf().entries()) {
      if (index < version) continue
      const text = readFileSync(new URL(name, folder), 'utf8')
      await db.query(text, undefined, { answerMs: migrationMs })
      await db.query('INSERT INTO migration VALUES ($1)', [index + 1])
      applied.push(name)
    }
    await db.query('COMMIT')
  } catch (error) {
    await db.query('ROLLBACK').catch(() => {})
    throw error
  }
  return applied
}

/**
 * The statements by which the owner of a schema gives a role the rights to run a gateway, also on what later migrations
 * of this owner add: rows and functions, and no right to define anything.
 */
export function grantsFor({ schema }: Pick<PostgresAddress, 'schema'>, role: string): readonly string[] {
  const name = pg.escapeIdentifier(role)
  const rights = [
    ['SELECT, INSERT, UPDATE, DELETE', 'TABLES'],
    ['USAGE, SELECT', 'SEQUENCES'],
    ['EXECUTE', 'FUNCTIONS'],
  ] as const
  return [
    `GRANT USAGE ON SCHEMA "${schema}" TO ${name}`,
    ...rights.map(([right, what]) => `GRANT ${right} ON ALL ${what} IN SCHEMA "${schema}" TO ${name}`),
    // A gateway reads how far the schema is, and never says so itself.
    `REVOKE INSERT, UPDATE, DELETE ON "${schema}".migration FROM ${name}`,
    ...rights.map(
      ([right, what]) =>
        `ALTER DEFAULT PRIVILEGES IN SCHEMA "${schema}" GRANT ${right} ON ${what} TO ${name}`,
    ),
  ]
}

/** The number of migrations that the schema has; undefined where it has no table of them. */
async function versionOf(db: Db, schema: string): Promise<number | undefined> {
  const [table] = await db.query<{ name: string | null }>(
    "SELECT to_regclass($1 || '.migration')::text AS name",
    [schema],
  )
  if (table?.name == null) return undefined
  const [row] = await db.query<{ version: number | null }>('SELECT max(version) AS version FROM migration')
  return row?.version ?? 0
}

/** Brings the schema up to date, one process at a time, and checks that the server can carry it. */
import { readdirSync, readFileSync } from 'node:fs'
import { SluiceError } from '../../errors.ts'
import type { PostgresAddress } from './address.ts'
import type { Db } from './connection.ts'

const folder = new URL('./migrations/', import.meta.url)
/** Older servers lack what the schema uses, and have no more support. */
const oldest = 14

/** The server and the schema as they are before a start. */
export interface Inspection {
  readonly version: string
  /** Migrations that the schema has; undefined where there is none yet. */
  readonly schemaVersion: number | undefined
  /** Migrations that this version of Sluice has. */
  readonly known: number
}

const filesOf = (): readonly string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .toSorted()

/** @throws SluiceError INVALID_CONFIG where the server is too old, only reads, or holds a newer schema */
export async function inspect(db: Db, { shown, schema }: PostgresAddress): Promise<Inspection> {
  const [server] = await db.query<{ version: number; shownVersion: string; standby: boolean }>(
    `SELECT current_setting('server_version_num')::int AS version,
       current_setting('server_version') AS "shownVersion", pg_is_in_recovery() AS standby`,
  )
  if (server!.version < oldest * 10_000)
    throw new SluiceError(
      'INVALID_CONFIG',
      `PostgreSQL at ${shown} is version ${server!.shownVersion}; Sluice needs ${oldest} or newer: upgrade the server, or use another one.`,
    )
  if (server!.standby)
    throw new SluiceError(
      'INVALID_CONFIG',
      `PostgreSQL at ${shown} is a standby, which only reads: name the primary in "store".`,
    )
  const known = filesOf().length
  const schemaVersion = await versionOf(db, schema)
  if (schemaVersion !== undefined && schemaVersion > known)
    throw new SluiceError(
      'INVALID_CONFIG',
      `The schema "${schema}" at ${shown} is of a newer version of Sluice (${schemaVersion}, this one knows ${known}): run that version.`,
    )
  return { version: server!.shownVersion, schemaVersion, known }
}

/** @throws SluiceError INVALID_CONFIG where the server or its schema does not serve */
export async function migrate(db: Db, address: PostgresAddress): Promise<void> {
  const { schema } = address
  const { schemaVersion, known: all } = await inspect(db, address)
  if (schemaVersion === all) return
  await db.query('BEGIN')
  try {
    await db.query("SELECT pg_advisory_xact_lock(hashtext('sluice migrations'), hashtext($1))", [schema])
    // A schema that the operator has made needs no right on the database.
    const [known] = await db.query('SELECT FROM pg_namespace WHERE nspname = $1', [schema])
    if (known === undefined) await db.query(`CREATE SCHEMA ${schema}`)
    await db.query('CREATE TABLE IF NOT EXISTS migration (version int PRIMARY KEY)')
    const version = (await versionOf(db, schema))!
    for (const [index, name] of filesOf().entries()) {
      if (index < version) continue
      await db.query(readFileSync(new URL(name, folder), 'utf8'))
      await db.query('INSERT INTO migration VALUES ($1)', [index + 1])
    }
    await db.query('COMMIT')
  } catch (error) {
    await db.query('ROLLBACK').catch(() => {})
    throw error
  }
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

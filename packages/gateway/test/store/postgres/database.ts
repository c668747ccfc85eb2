/** Schemas of their own on the PostgreSQL that the tests were given. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { readPostgresAddress } from '../../../src/config/postgres-address.ts'
import type { Clock, Store } from '../../../src/ports.ts'
import type { PostgresAddress } from '../../../src/store/postgres/address.ts'
import {
  openPostgresFleet,
  type PostgresFleet,
  type PostgresFleetOptions,
} from '../../../src/store/postgres/fleet/open-fleet.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres.ts'

const made: string[] = []
const run = randomBytes(4).toString('hex')

/** The address of a schema that no other run uses; the same name is the same schema. */
export function schemaUrl(name: string): string {
  const schema = `t_${run}_${name.replaceAll(/[^a-z0-9]/g, '_')}`
  if (!made.includes(schema)) made.push(schema)
  return `${process.env.SLUICE_TEST_POSTGRES}?schema=${schema}`
}

export const addressOf = (url: string): PostgresAddress =>
  readPostgresAddress(url, () => {
    throw new Error('no files here')
  })

/** Joins the fleet of an address, with short beats. */
export const joinAt = (
  url: string,
  clock: Clock,
  more: Partial<
    Pick<PostgresFleetOptions, 'onDeclaredDead' | 'onError' | 'beatMs' | 'channels' | 'policy'>
  > = {},
): Promise<PostgresFleet> =>
  openPostgresFleet({
    address: addressOf(url),
    clock,
    version: 'test',
    channels: ['email'],
    policy: () => 'policy',
    beatMs: 50,
    onDeclaredDead: () => {},
    onError: () => {},
    ...more,
  })

/** Opens the store of an address: alone, or as the member of this number among others. */
export const openAt = (url: string, clock: Clock, member?: string, isLogged = false): Promise<Store> =>
  openPostgresStore({
    address: addressOf(url),
    clock,
    version: 'test',
    alone: member === undefined,
    isLogged,
    ...(member === undefined ? {} : { member }),
  })

/** Runs one statement in the schema of an address, behind the back of the store. */
export async function ask(url: string, text: string): Promise<pg.QueryResultRow[]> {
  const { searchParams } = new URL(url)
  const client = new pg.Client({ connectionString: process.env.SLUICE_TEST_POSTGRES! })
  await client.connect()
  try {
    await client.query(`SET search_path = ${searchParams.get('schema')}`)
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

/** Removes all rows of a schema, where it has tables yet: a new one would cost each test 100 ms. */
export async function clear(url: string): Promise<void> {
  const schema = new URL(url).searchParams.get('schema')
  const tables = await ask(
    url,
    `SELECT tablename FROM pg_tables WHERE schemaname = '${schema}' AND tablename <> 'migration'`,
  )
  await ask(url, tables.map(({ tablename }) => `DELETE FROM ${tablename}`).join(';'))
}

/** Drops the schemas of this run. */
export async function dropSchemas(): Promise<void> {
  if (made.length === 0) return
  const client = new pg.Client({ connectionString: process.env.SLUICE_TEST_POSTGRES! })
  await client.connect()
  for (const schema of made) await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await client.end()
}

/** Returns the address of a schema, which is cleared before each use but the first. */
export function schemaForSequences(name: string): () => Promise<string> {
  const url = schemaUrl(name)
  let isUsed = false
  return async () => {
    if (isUsed) await clear(url)
    isUsed = true
    return url
  }
}

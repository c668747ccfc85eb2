/** Schemas of their own on the PostgreSQL that the tests were given. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { readPostgresAddress } from '../../../src/config/postgres-address.ts'
import type { Clock, Store } from '../../../src/ports.ts'
import { openPostgresStore } from '../../../src/store/postgres/postgres.ts'

const made: string[] = []
const run = randomBytes(4).toString('hex')

/** The address of a schema that no other run uses; the same name is the same schema. */
export function schemaUrl(name: string): string {
  const schema = `t_${run}_${name.replaceAll(/[^a-z0-9]/g, '_')}`
  if (!made.includes(schema)) made.push(schema)
  return `${process.env.SLUICE_TEST_POSTGRES}?schema=${schema}`
}

/** Opens the store of an address. */
export const openAt = (url: string, clock: Clock): Promise<Store> =>
  openPostgresStore({
    address: readPostgresAddress(url, () => {
      throw new Error('no files here')
    }),
    clock,
    version: 'test',
  })

/** Drops the schemas of this run. */
export async function dropSchemas(): Promise<void> {
  const client = new pg.Client({ connectionString: process.env.SLUICE_TEST_POSTGRES! })
  await client.connect()
  for (const schema of made) await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
  await client.end()
}

/** Secret keys in the table `secret`: every process of a store signs and hashes with the same. */
import { randomBytes } from 'node:crypto'
import type { PostgresAddress } from './address.ts'
import { type Connection, connect } from './connection.ts'
import { migrate } from './migrate.ts'
import { startFault } from './postgres-errors.ts'
import { checkSessions } from './sessions.ts'

const keyBytes = 32

/**
 * Reads the keys by name; one that is missing is made, of the value that this process brings or by chance. Of several
 * processes that bring one the first decides.
 * @throws SluiceError INVALID_CONFIG where the server does not serve
 */
export async function readSecrets(
  address: PostgresAddress,
  wanted: readonly (readonly [name: string, own: Buffer | undefined])[],
): Promise<ReadonlyMap<string, Buffer>> {
  let connection: Connection | undefined
  try {
    connection = await connect(address)
    await checkSessions(connection, address)
    await migrate(connection, address)
    for (const [name, own] of wanted)
      await connection.query('INSERT INTO secret VALUES ($1, 1, $2) ON CONFLICT DO NOTHING', [
        name,
        own ?? randomBytes(keyBytes),
      ])
    const rows = await connection.query<{ name: string; value: Buffer }>(
      'SELECT name, value FROM secret WHERE name = ANY($1)',
      [wanted.map(([name]) => name)],
    )
    return new Map(rows.map(({ name, value }) => [name, value]))
  } catch (error) {
    throw startFault(error, address)
  } finally {
    await connection?.close()
  }
}

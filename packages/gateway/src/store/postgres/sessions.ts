/** Makes sure that a connection is a session of its own: a proxy that pools transactions gives locks and settings away. */
import { SluiceError } from '../../errors.ts'
import type { PostgresAddress } from './address.ts'
import { type Connection, connect, type Db } from './connection.ts'

/**
 * Compares the server's processes behind two connections that are open at once: a proxy that pools transactions answers
 * both from the same one.
 * @throws SluiceError INVALID_CONFIG where that is so
 */
export async function checkSessions(db: Db, address: PostgresAddress): Promise<void> {
  const processOf = async (of: Db) => (await of.query('SELECT pg_backend_pid() AS pid'))[0]!.pid
  const other: Connection = await connect(address)
  try {
    if ((await processOf(db)) !== (await processOf(other))) return
  } finally {
    await other.close()
  }
  throw new SluiceError(
    'INVALID_CONFIG',
    `The connections to ${address.shown} are pooled by transaction: two of them share one process of the server. Sluice holds locks and settings of a session: let the proxy pool by session (pgbouncer: pool_mode = session), or name the server itself in "store".`,
  )
}

/** Makes sure that a connection is a session of its own: a proxy that pools transactions gives locks and settings away. */
import { SluiceError } from '../../errors.ts'
import type { PostgresAddress } from './address.ts'
import { type Connection, connect, type Db } from './connection.ts'

/** Questions about the process behind a connection, while another one holds its own. */
const looks = 30

/**
 * Compares the server's processes behind two connections. A proxy that pools transactions has one process for both where
 * it is idle; where others use it too, the process behind a connection changes from one transaction to the next. One
 * connection is within a transaction meanwhile, so that its process cannot be given to the other.
 * @throws SluiceError INVALID_CONFIG where they are pooled by transaction
 */
export async function checkSessions(db: Db, address: PostgresAddress): Promise<void> {
  const other: Connection = await connect(address)
  try {
    if (!(await isPooled(db, other))) return
  } finally {
    await other.close()
  }
  throw new SluiceError(
    'INVALID_CONFIG',
    `The connections to ${address.shown} are pooled by transaction: they share processes of the server. Sluice holds locks and settings of a session: let the proxy pool by session (pgbouncer: pool_mode = session), or name the server itself in "store".`,
  )
}

async function isPooled(db: Db, other: Db): Promise<boolean> {
  const processOf = async (of: Db) => (await of.query('SELECT pg_backend_pid() AS pid'))[0]!.pid
  const first = await processOf(other)
  // Over a slow line it stays open for longer than the sessions allow.
  await db.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 60000')
  try {
    if ((await processOf(db)) === first) return true
    for (let look = 0; look < looks; look += 1) if ((await processOf(other)) !== first) return true
    return false
  } finally {
    await db.query('ROLLBACK')
  }
}

/** Tells where a server keeps less than a commit promises, although every session of the gateway asks for it. */
import type { PostgresAddress } from './address.ts'
import type { Db } from './connection.ts'

/** The sentence for an operator whose server does not write its log through to the disk; undefined where it does. */
export async function notDurable(
  db: Db,
  { shown }: Pick<PostgresAddress, 'shown'>,
): Promise<string | undefined> {
  const [server] = await db.query<{ fsync: string }>("SELECT current_setting('fsync') AS fsync")
  if (server!.fsync !== 'off') return undefined
  return `PostgreSQL at ${shown} runs with fsync = off: a crash of its machine loses what was accepted, and can damage the database. Set fsync = on in its configuration and reload it.`
}

/**
 * The registration of a process. With the state of the limits in memory one process serves a store: it holds an
 * advisory lock as long as its writing connection lasts, which the server frees when the process dies. Several
 * processes share that lock.
 */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { SluiceError } from '../../errors.ts'
import type { Channel } from '../../model.ts'
import type { PostgresAddress } from './address.ts'
import { type Db, statementMs } from './connection.ts'

/** 63 random bits as a decimal number: compared for equality only, and never used twice. */
export function newMemberId(): string {
  const id = randomBytes(8).readBigUInt64BE() >> 1n
  return String(id === 0n ? 1n : id)
}

/** The server frees the lock of a killed process when it reads from its socket: milliseconds, more under load. */
const patienceMs = 3_000

/** True where this connection holds the right to serve the store: as the only process, or as one of several. */
export async function lockStore(db: Db, alone: boolean): Promise<boolean> {
  const lock = alone ? 'pg_try_advisory_lock' : 'pg_try_advisory_lock_shared'
  const [row] = await db.query<{ held: boolean }>(
    `SELECT ${lock}(hashtext('sluice alone'), hashtext(current_schema())) AS held`,
  )
  return row!.held
}

const aloneInMemory =
  'with "state: memory" one process serves a store. Name one Redis in "state" of all of them, or stop that one first, or give this one a database or schema of its own.'

/** @throws SluiceError INVALID_CONFIG where another process serves the store, and one of the two must be alone */
export async function enter(
  db: Db,
  { shown, schema }: PostgresAddress,
  alone: boolean,
  reason = aloneInMemory,
): Promise<void> {
  for (let waitedMs = 0; !(await lockStore(db, alone)); waitedMs += 100) {
    if (waitedMs >= patienceMs) {
      const [other] = await db.query<{ name: string }>(
        'SELECT name FROM member WHERE state IN (1, 2) ORDER BY started_at DESC LIMIT 1',
      )
      throw new SluiceError(
        'INVALID_CONFIG',
        `Another gateway${other === undefined ? '' : ` (${other.name})`} serves ${shown}, schema "${schema}": ${reason}`,
      )
    }
    await wait(100)
  }
}

export interface Registration {
  /** True where a process before this one did not end cleanly. */
  readonly unsettled: boolean
  /** The key of the pseudonyms of erased recipients. */
  readonly erasureKey: Buffer
}

/** The rows of a process that goes or has gone, at most what it held in memory, are freed within this time, ms. */
export const takeOverMs = 120_000

export interface Registering {
  readonly id: string
  readonly version: string
  /** Channels that this process serves, which the others read with their beats. */
  readonly channels: readonly Channel[] | undefined
  readonly now: number
  /** True where no other process may be alive: those before this one have gone, and their rows are free. */
  readonly alone: boolean
}

/** Registers this process, which asks no server of limits before it has registered one. */
export async function register(
  db: Db,
  { id, version, channels, now, alone }: Registering,
): Promise<Registration> {
  await db.query(
    'INSERT INTO member (id, name, version, channels, asks_no_server) VALUES ($1, $2, $3, $4, true)',
    [id, `${hostname()}:${process.pid}`, version, channels ?? null],
  )
  const gone = await db.query<{ id: string }>(
    `SELECT id::text AS id FROM member WHERE ${alone ? 'state <> 4' : 'state = 3'} AND id <> $1 ORDER BY id`,
    [id],
  )
  // As much as the process before held in memory: not within the time of an ordinary statement.
  await db.query(`SET statement_timeout = ${takeOverMs}`)
  for (const member of alone ? gone : [])
    await db.query('SELECT settle_member($1, $2)', [member.id, now], { answerMs: takeOverMs })
  await db.query(`SET statement_timeout = ${statementMs}`)
  await db.query('DELETE FROM member WHERE state = 4')
  await db.query("INSERT INTO secret VALUES ('erasure', 1, $1) ON CONFLICT DO NOTHING", [randomBytes(32)])
  const [secret] = await db.query<{ value: Buffer }>("SELECT value FROM secret WHERE name = 'erasure'")
  return { unsettled: gone.length > 0, erasureKey: secret!.value }
}

/**
 * Connections to PostgreSQL with the settings of the gateway. Decision record 0032 says why the driver is `pg`. Each
 * statement has a deadline of this process besides that of the server: a connection that stays silent is given up.
 */
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { PostgresAddress } from './address.ts'
import { StandbyError } from './postgres-errors.ts'

/** A connection that has not been made by then is given up, ms. */
const connectMs = 5_000
/** The server ends a statement after this time, ms; what waits for a lock ends earlier. */
export const statementMs = 5_000
export const lockMs = 2_000
/**
 * The server ends a connection whose answer was not read for so long, ms: it waits for the reader within the transaction, and
 * no other time-out ends that. A process that was stopped reads nothing, and its machine still answers keepalives.
 */
const unreadMs = 5_000
/** A statement that is not answered by then is lost with its connection, ms: the server ends it before. */
const answerMs = 8_000

export interface Db {
  query<Row extends object = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
    options?: QueryOptions,
  ): Promise<readonly Row[]>
}

interface QueryOptions {
  /** Prepares the statement under this name, once for each connection. */
  readonly name?: string
  /** The deadline of the answer, ms. @defaultValue 8000 */
  readonly answerMs?: number
}

export interface Connection extends Db {
  /** False once the connection has ended. */
  readonly isOpen: boolean
  close(): Promise<void>
}

const int8 = 20
/** Numbers of 64 bits stay below 2^53 here: instants, counts. */
const types = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === int8 ? Number : pg.types.getTypeParser(oid, format as 'text'),
}

function optionsOf({ host, port, user, password, database, ssl }: PostgresAddress): pg.ClientConfig {
  return {
    host,
    port,
    user,
    database,
    ssl,
    types: types as unknown as pg.CustomTypesConfig,
    application_name: 'sluice',
    connectionTimeoutMillis: connectMs,
    query_timeout: answerMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
    ...(password === undefined ? {} : { password }),
  }
}

/**
 * Settings of a session: a server that no longer hears from this process frees its locks within seconds. Every
 * statement goes by an index; a plan made while a table was empty reads all of it once it has grown. A commit is on disk
 * before its answer also where the role or the server says otherwise; `local` and the settings for standbys stay.
 */
const settingsOf = ({ schema }: PostgresAddress): string => `
  SET search_path = "${schema}"; SET statement_timeout = ${statementMs}; SET lock_timeout = ${lockMs};
  SET idle_in_transaction_session_timeout = 5000; SET default_transaction_isolation = 'read committed';
  SET client_min_messages = warning; SET jit = off;
  SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
  SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
  SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;
  SET tcp_user_timeout = ${unreadMs};
  SELECT pg_is_in_recovery() AS standby`

/**
 * Prepares a new connection. The name of a server may lead to a standby for a while, as in a fail-over: it answers what only
 * reads, from a record that may be behind, and a connection that was kept would stay there when the name leads elsewhere.
 * @throws StandbyError
 */
async function prepare(client: pg.ClientBase, address: PostgresAddress): Promise<void> {
  // The driver answers several statements with a list of results.
  const results = (await client.query(settingsOf(address))) as unknown as readonly pg.QueryResult[]
  if (results.at(-1)!.rows[0]!.standby === true) throw new StandbyError()
}

function statementOf(
  text: string,
  values: readonly unknown[] = [],
  { name, answerMs: deadlineMs }: QueryOptions = {},
): pg.QueryConfig {
  return {
    text,
    values: [...values],
    ...(name === undefined ? {} : { name }),
    ...(deadlineMs === undefined ? {} : { query_timeout: deadlineMs }),
  }
}

/**
 * Opens one connection.
 * @throws StandbyError
 */
export async function connect(address: PostgresAddress): Promise<Connection> {
  const client = new pg.Client(optionsOf(address))
  let isOpen = true
  const end = (): void => {
    isOpen = false
    // The socket is closed without a word to the server, which may not hear it.
    ;(client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy()
  }
  // The server may have said what makes no sense, and would keep the locks of the session.
  client.on('error', end)
  client.on('end', () => {
    isOpen = false
  })
  try {
    await client.connect()
    await prepare(client, address)
  } catch (error) {
    end()
    throw error
  }
  return {
    get isOpen() {
      return isOpen
    },
    async query<Row>(text: string, values?: readonly unknown[], options?: QueryOptions) {
      try {
        const { rows } = await client.query(statementOf(text, values, options))
        return rows as Row[]
      } catch (error) {
        // The driver's own deadline: the answer may still come, to nobody.
        if ((error as Error).message === 'Query read timeout') end()
        throw error
      }
    },
    async close() {
      if (isOpen) await Promise.race([client.end(), wait(1_000, undefined, { ref: false })])
      end()
    },
  }
}

export interface ReadPool extends Db {
  close(): Promise<void>
}

/** A small pool for questions, which run beside the writes. */
export function createReadPool(address: PostgresAddress, max = 4): ReadPool {
  const pool = new pg.Pool({
    ...optionsOf(address),
    max,
    idleTimeoutMillis: 30_000,
    onConnect: (client) => prepare(client, address),
  })
  // A connection that ends while it is idle is replaced with the next question.
  pool.on('error', () => {})
  return {
    async query<Row>(text: string, values?: readonly unknown[], options?: QueryOptions) {
      const { rows } = await pool.query(statementOf(text, values, options))
      return rows as Row[]
    },
    close: () => pool.end(),
  }
}

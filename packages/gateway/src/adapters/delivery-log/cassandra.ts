/**
 * The delivery log in Cassandra. Every write is an upsert of rows whose keys the records give, so that what was written
 * and not confirmed is written again without a trace. Rows of one recipient and month go together in an unlogged batch,
 * which one node applies as one; batches of different recipients run side by side. Each write bears the instant at which
 * its records were read: what a process that stood still writes late lies before the erasures of its successor.
 */
import { setTimeout as wait } from 'node:timers/promises'
import cassandra, { type Client, type types } from 'cassandra-driver'
import type { Channel, Status } from '../../model.ts'
import {
  type DeliveryLog,
  isErasure,
  type LogEntry,
  type LoggedErasure,
  type LoggedEvents,
  type LogRecord,
} from '../../ports/delivery-log.ts'
import type { Clock } from '../../ports.ts'
import { type CassandraAddress, connectCassandra } from './cassandra-connection.ts'
import { tableByIdOf, tableOf } from './cassandra-schema.ts'

export interface CassandraLogOptions {
  readonly address: CassandraAddress
  /** How long an entry is kept, ms from its instant. */
  readonly keepMs: number
  readonly clock: Pick<Clock, 'now'>
  /** Called when the tables were made. */
  readonly onCreated?: (statements: readonly string[]) => void
}

/** Statements in flight: more only lengthen the queue of a node. */
const parallelMax = 32
/** The longest wait for connections to end, ms. */
const closeMs = 1_000
/** Rows of a batch: Cassandra warns of batches above 5 KiB, and a row has some 200 bytes. */
const batchMax = 20
const consistency = cassandra.types.consistencies.localQuorum

interface Statement {
  readonly query: string
  readonly params: readonly unknown[]
}

export function createCassandraLog({
  address,
  keepMs,
  clock,
  onCreated = () => {},
}: CassandraLogOptions): DeliveryLog {
  const table = tableOf(address.keyspace)
  const tableById = tableByIdOf(address.keyspace)
  const insert = `INSERT INTO ${table} (tenant, recipient, month, at, notification_id, seq, status, reason, channel,
    provider, account, attempt, detail) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    USING TTL ? AND TIMESTAMP ?`
  const insertId = `INSERT INTO ${tableById} (notification_id, tenant, recipient) VALUES (?, ?, ?)
    USING TTL ? AND TIMESTAMP ?`
  let opening: Promise<Client> | undefined
  let isClosed = false

  /** Connects with the first question, and anew where that failed: nothing waits for Cassandra at a start. */
  function connected(): Promise<Client> {
    if (isClosed) return Promise.reject(new Error('the delivery log is closed'))
    opening ??= connectCassandra(address, onCreated).catch((error: unknown) => {
      opening = undefined
      throw error
    })
    return opening
  }

  const ttlOf = (at: number): number => Math.ceil((at + keepMs - clock.now()) / 1_000)

  /** The statements of a page of records: batches of rows that lie together, and ids each once. */
  function batchesOf(records: readonly LoggedEvents[], stamp: number): readonly (readonly Statement[])[] {
    const partitions = new Map<string, Statement[]>()
    const ids = new Map<string, Statement>()
    for (const { tenant, recipient, notificationId, channel, seq, events } of records)
      for (const [index, { at, status, reason, provider, account, attempt, detail }] of events.entries()) {
        const ttl = ttlOf(at)
        if (ttl <= 0) continue
        const month = monthOf(at)
        const place = [tenant, recipient, month]
        const params = [
          ...[...place, new Date(at), notificationId, seq + index, status, reason, channel],
          ...[provider, account, attempt, detail, ttl, stamp],
        ]
        const key = JSON.stringify(place)
        const rows = partitions.get(key)
        if (rows === undefined) partitions.set(key, [{ query: insert, params }])
        else rows.push({ query: insert, params })
        const byId = [notificationId, tenant, recipient, ttl, stamp]
        ids.set(notificationId, { query: insertId, params: byId })
      }
    const batches = [...partitions.values()].flatMap((rows) =>
      Array.from({ length: Math.ceil(rows.length / batchMax) }, (_, n) =>
        rows.slice(n * batchMax, (n + 1) * batchMax),
      ),
    )
    return [...batches, ...[...ids.values()].map((each) => [each])]
  }

  async function send(client: Client, statements: readonly Statement[]): Promise<void> {
    const options = { prepare: true, isIdempotent: true, consistency }
    const [first] = statements
    if (statements.length === 1) await client.execute(first!.query, [...first!.params], options)
    else
      await client.batch(
        statements.map(({ query, params }) => ({ query, params: [...params] })),
        { ...options, logged: false },
      )
  }

  /** Removes the rows of a recipient, month by month: first the ids that lead there, so that none is left behind. */
  async function erase(client: Client, erasure: LoggedErasure, stamp: number): Promise<void> {
    const { tenant, recipient, erasedAt } = erasure
    const options = { prepare: true, isIdempotent: true, consistency }
    for (const month of monthsBetween(erasedAt - keepMs, erasedAt)) {
      const place = [tenant, recipient, month]
      const where = 'WHERE tenant = ? AND recipient = ? AND month = ?'
      const found = new Set<string>()
      // The driver fetches the next page when this one has been gone through.
      const rows = await client.execute(`SELECT notification_id FROM ${table} ${where}`, place, options)
      for await (const row of rows) found.add(String(row.notification_id))
      await inParallel([...found], (id) =>
        client.execute(
          `DELETE FROM ${tableById} USING TIMESTAMP ? WHERE notification_id = ?`,
          [stamp, id],
          options,
        ),
      )
      if (found.size > 0)
        await client.execute(`DELETE FROM ${table} USING TIMESTAMP ? ${where}`, [stamp, ...place], options)
    }
  }

  return {
    async write(records, readAt) {
      const client = await connected()
      // An erasure removes what stands before it and nothing behind it.
      for (const [place, part] of splitAtErasures(records).entries()) {
        const stamp = readAt * 1_000 + place
        if (part.erasure === undefined)
          await inParallel(batchesOf(part.records, stamp), (each) => send(client, each))
        else await erase(client, part.erasure, stamp)
      }
    },

    async notification(id) {
      const client = await connected()
      const options = { prepare: true, isIdempotent: true, consistency }
      const named = await client.execute(
        `SELECT tenant, recipient FROM ${tableById} WHERE notification_id = ?`,
        [id],
        options,
      )
      const row = named.first()
      if (row === null) return undefined
      const [tenant, recipient] = [String(row.tenant), String(row.recipient)]
      const now = clock.now()
      const entries: LogEntry[] = []
      await inParallel(monthsBetween(now - keepMs, now), async (month) => {
        // Filtered within one partition: the entries of one recipient and month.
        const found = await client.execute(
          `SELECT at, seq, status, reason, channel, provider, account, attempt, detail FROM ${table}
            WHERE tenant = ? AND recipient = ? AND month = ? AND notification_id = ? ALLOW FILTERING`,
          [tenant, recipient, month, id],
          options,
        )
        for await (const each of found) entries.push(entryOf(each))
      })
      entries.sort((a, b) => a.seq - b.seq)
      return { notificationId: id, tenant, recipient, entries }
    },

    async close() {
      isClosed = true
      const ended = opening?.then((client) => client.shutdown()).catch(() => {})
      // A node that is frozen ends no connection, and keeps no gateway from ending.
      await Promise.race([ended, wait(closeMs, undefined, { ref: false })])
    },
  }
}

function entryOf(row: types.Row): LogEntry {
  const optional = <Name extends 'reason' | 'provider' | 'account' | 'attempt' | 'detail'>(name: Name) =>
    row[name] === null || row[name] === undefined ? {} : { [name]: row[name] as string & number }
  return {
    seq: row.seq as number,
    at: (row.at as Date).getTime(),
    status: row.status as Status,
    channel: row.channel as Channel,
    ...optional('reason'),
    ...optional('provider'),
    ...optional('account'),
    ...optional('attempt'),
    ...optional('detail'),
  }
}

type Part =
  | { readonly records: readonly LoggedEvents[]; readonly erasure?: undefined }
  | { readonly erasure: LoggedErasure }

function splitAtErasures(records: readonly LogRecord[]): readonly Part[] {
  const parts: Part[] = []
  let run: LoggedEvents[] = []
  for (const record of records) {
    if (!isErasure(record)) {
      run.push(record)
      continue
    }
    parts.push({ records: run }, { erasure: record })
    run = []
  }
  return [...parts, { records: run }]
}

/** The month of an instant, in UTC: `2026-11`. */
const monthOf = (at: number): string => new Date(at).toISOString().slice(0, 7)

function monthsBetween(from: number, to: number): readonly string[] {
  const months: string[] = []
  const at = new Date(from)
  at.setUTCDate(1)
  at.setUTCHours(0, 0, 0, 0)
  for (; at.getTime() <= to; at.setUTCMonth(at.getUTCMonth() + 1)) months.push(monthOf(at.getTime()))
  return months
}

/** Runs the work of a list, so many at once. Rejects with the first error, when none is under way any more. */
async function inParallel<T>(list: readonly T[], work: (each: T) => Promise<unknown>): Promise<void> {
  let next = 0
  let failure: { readonly error: unknown } | undefined
  async function doNext(): Promise<void> {
    while (next < list.length && failure === undefined) {
      const each = list[next]!
      next += 1
      await work(each).catch((error: unknown) => {
        failure ??= { error }
      })
    }
  }
  await Promise.all(Array.from({ length: Math.min(parallelMax, list.length) }, doNext))
  if (failure !== undefined) throw failure.error
}

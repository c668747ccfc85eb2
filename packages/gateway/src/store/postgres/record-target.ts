/**
 * Writes a whole record that comes from another store: everything within one transaction of one connection, by the
 * function that writes the groups of a gateway. A process that ends in the middle leaves nothing behind.
 */
import { SluiceError } from '../../errors.ts'
import { joinedText, textOf } from '../log-records.ts'
import type { EntryPage, RecordTarget } from '../move.ts'
import type { PostgresAddress } from './address.ts'
import { type EncodedChange, encodeChange, encodeGroup } from './codec.ts'
import { type Connection, connect, type Db } from './connection.ts'
import { feedbackRow, sentRow, writeFeedback, writeSent, writeWaiting } from './feedback.ts'
import { poisonRow, positionRow, writePoison, writePositions } from './intake.ts'
import { enter, newMemberId } from './member.ts'
import { migrate } from './migrate.ts'
import { outboxValues, writeOutbox } from './outbox.ts'
import { startFault, storeFault } from './postgres-errors.ts'
import { readPages } from './record-pages.ts'
import { checkSessions } from './sessions.ts'

/** A statement of a move takes as long as the record is large; it is given up after an hour, ms. */
const moveMs = 3_600_000
/** Tables that a store which was never used has no row in. */
const used = [
  'notification',
  'recipient',
  'answer',
  'job',
  'content',
  'digest',
  'erasure',
  'hold',
  'feedback',
  'feedback_waiting',
  'outbox',
  'intake_position',
  'poison',
] as const

export interface TargetOptions {
  readonly address: PostgresAddress
  readonly version: string
  /** Looks at the destination, and changes nothing. */
  readonly isDryRun: boolean
}

/**
 * Opens a schema as the destination of a move; one that is missing is created.
 * @throws SluiceError INVALID_CONFIG where it is in use or not empty, or cannot be used
 */
export async function openPostgresTarget({
  address,
  version,
  isDryRun,
}: TargetOptions): Promise<RecordTarget> {
  let connection: Connection | undefined
  try {
    connection = await connect(address)
    await checkSessions(connection, address)
    await connection.query('SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0')
    if (!isDryRun) await migrate(connection, address)
    const [found] = await connection.query<{ name: string | null }>(
      "SELECT to_regclass($1 || '.member')::text AS name",
      [address.schema],
    )
    if (found!.name !== null) {
      await enter(
        connection,
        address,
        true,
        'a move needs a store that none serves. Stop it first (SIGTERM).',
      )
      await checkEmpty(connection, address)
    }
    return targetOf(connection, address, version)
  } catch (error) {
    await connection?.close()
    throw startFault(error, address)
  }
}

/** @throws SluiceError INVALID_CONFIG where the schema holds anything */
async function checkEmpty(db: Db, { shown, schema }: PostgresAddress): Promise<void> {
  const [row] = await db.query<{ name: string | null }>(
    `SELECT coalesce(${used.map((table) => `(SELECT '${table}' FROM ${table} LIMIT 1)`).join(', ')}) AS name`,
  )
  if (row!.name !== null)
    throw new SluiceError(
      'INVALID_CONFIG',
      `The schema "${schema}" at ${shown} is not empty: there are rows in "${row!.name}". A move goes to an empty store: name another schema (?schema=…), or drop that one.`,
    )
}

function targetOf(connection: Connection, address: PostgresAddress, version: string): RecordTarget {
  const member = newMemberId()
  let epoch = 0
  /** Names of the keys that were written. */
  const keys: string[] = []
  const db: Db = {
    async query(text, values, options) {
      try {
        return await connection.query(text, values, { answerMs: moveMs, ...options })
      } catch (error) {
        throw storeFault(error, address)
      }
    },
  }

  async function writeGroup(changes: readonly EncodedChange[]): Promise<void> {
    const { json, texts } = encodeGroup(changes)
    const [row] = await db.query<{ conflicts: readonly { kind: string; key: string }[] }>(
      'SELECT to_json(commit_group($1, $2, $3, $4, $5)) AS conflicts',
      [member, epoch, Number.MIN_SAFE_INTEGER, json, texts],
      { name: 'move' },
    )
    const [conflict] = row!.conflicts
    if (conflict !== undefined) throw new Error(`the ${conflict.kind} ${conflict.key} is there twice`)
  }

  async function write(page: EntryPage): Promise<void> {
    if (page.entries.length === 0) return
    switch (page.kind) {
      case 'notification':
        return writeGroup([encodeChange({ accept: page.entries })])
      case 'content':
        return writeGroup([encodeChange({ contents: page.entries })])
      case 'recipient':
        return writeGroup([
          encodeChange({ recipients: page.entries.map(({ version: _, ...recipient }) => recipient) }),
        ])
      case 'digest':
        return writeGroup([
          encodeChange({ digests: page.entries.map((digest) => ({ kind: 'open', digest })) }),
        ])
      case 'job':
        return writeGroup([
          encodeChange({
            // An ended job has no work, and the store keeps none for it.
            jobs: page.entries.map(({ job, work = { message: {} as never, recipients: [] } }) => ({
              kind: 'open',
              job,
              work,
            })),
          }),
        ])
      case 'answer':
        return writeGroup(page.entries.map((answer) => encodeChange({ answer })))
      case 'account':
        return writeGroup([encodeChange({ accounts: page.entries })])
      case 'hold':
        return writeGroup([
          encodeChange({ holds: page.entries.map((hold) => ({ kind: 'put', name: hold.name, hold })) }),
        ])
      case 'erasure':
        for (const { tenant, recipient, newest } of page.entries)
          await db.query(
            `INSERT INTO erasure SELECT $1, $2, coalesce((SELECT seq FROM notification WHERE id = $3), 0)`,
            [tenant, recipient, newest],
          )
        return
      case 'feedback':
        await db.query(writeFeedback, [
          JSON.stringify(page.entries.map((event, n) => ({ n, ...feedbackRow(event) }))),
        ])
        return
      case 'waitingReport': {
        const rows = page.entries.map((report, n) => ({ n, ...report }))
        await db.query(writeWaiting, [JSON.stringify(rows), Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER])
        return
      }
      case 'sent':
        await db.query(writeSent, [
          JSON.stringify(page.entries.map((record, n) => ({ n, ...sentRow(record) }))),
        ])
        return
      case 'log':
        await db.query(writeOutbox, outboxValues(joinedText([textOf(page.entries)])))
        return
      case 'position':
        await db.query(writePositions, [JSON.stringify(page.entries.map(positionRow))])
        return
      case 'poison':
        await db.query(writePoison, [
          JSON.stringify(
            page.entries.map((each, n) =>
              poisonRow({ ...each, bytes: Buffer.from(each.bytes, 'base64') }, n),
            ),
          ),
        ])
        return
      case 'timeLine':
        await db.query(
          `INSERT INTO meta VALUES ('time line', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
          [JSON.stringify(page.entries[0])],
        )
        return
      case 'key':
        for (const { name, value } of page.entries) {
          await db.query(
            'INSERT INTO secret VALUES ($1, 1, $2) ON CONFLICT (name, version) DO UPDATE SET value = excluded.value',
            [name, Buffer.from(value, 'base64')],
          )
          keys.push(name)
        }
    }
  }

  return {
    async begin() {
      await db.query('BEGIN')
      await db.query("INSERT INTO member (id, name, version) VALUES ($1, 'sluice move', $2)", [
        member,
        version,
      ])
      const [row] = await db.query<{ epoch: number }>('SELECT open_epoch($1) AS epoch', [member])
      epoch = row!.epoch
    },
    write,
    pages: () => readPages(db, keys),
    async commit(unsettled) {
      await db.query('SELECT settle_member($1, 0)', [member])
      // A start takes an unsettled store for one whose last process was killed.
      if (unsettled) await db.query('UPDATE member SET state = 3 WHERE id = $1', [member])
      await db.query('COMMIT')
      // The planner has no figures of the rows yet, and the views of operators would read whole tables. The move is done,
      // whatever becomes of these: the server counts again by itself.
      await db.query('ANALYZE (SKIP_LOCKED)').catch(() => {})
    },
    close: () => connection.close(),
  }
}

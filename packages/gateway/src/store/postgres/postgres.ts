/**
 * The store on PostgreSQL: port `Store`, for one process or (fleet/) for several. Read it in the order
 * of a commit: a change is encoded (codec.ts), waits for its group (group.ts), and is written with the others in one
 * call of `commit_group` (writer.ts, migrations/0004-commit.sql). Questions run beside it on a small pool. Decision
 * record 0032 says why it is so.
 */
import type { Channel, SharedContent, Status } from '../../model.ts'
import type { Clock, GivenRights, RightRequest, Store, StoredRecipient } from '../../ports.ts'
import { isOnRecord } from '../commit-lookup.ts'
import { checkPaths } from '../memory/memory-rows.ts'
import { versionAsRead } from '../recipient-version.ts'
import { statusOf } from '../status-codes.ts'
import type { PostgresAddress } from './address.ts'
import { createAdmissions } from './admissions.ts'
import { createBacklogReads } from './backlog.ts'
import { readRowsFor, type WholeRow } from './codec.ts'
import { type Connection, connect, createReadPool, type Db } from './connection.ts'
import { countDelivered } from './delivered.ts'
import { createDigestReads } from './digest-reads.ts'
import { notDurable } from './durability.ts'
import { createErasures } from './erasures.ts'
import { createFeedback } from './feedback.ts'
import { takeServerClock } from './fleet/server-clock.ts'
import { gatherReads } from './gathered-reads.ts'
import { createIntake } from './intake.ts'
import { createJobReads, isJobKind } from './job-reads.ts'
import { createLeftToBroker } from './left-to-broker.ts'
import { createLists, isText } from './lists.ts'
import { enter, newMemberId, register, takeOverMs } from './member.ts'
import { migrate } from './migrate.ts'
import { createOutbox } from './outbox.ts'
import { createPing, RefusedCommits } from './ping.ts'
import { closed, startFault, storeFault } from './postgres-errors.ts'
import { prune } from './prune.ts'
import { createPseudonyms } from './pseudonyms.ts'
import { createTakeover } from './takeover.ts'
import { createTemplatesOnRecord } from './templates.ts'
import { createWaitingContents } from './waiting-contents.ts'
import { type AskedRight, type BegunRights, createWriter } from './writer.ts'

export interface PostgresStoreOptions {
  readonly address: PostgresAddress
  readonly clock: Clock
  /** The version of this program, for those who look at the table of members. */
  readonly version: string
  /** True where this process must be the only one of the store: it waits for no other and frees what was held. */
  readonly alone: boolean
  /** True to keep changes of state in an outbox for the delivery log. @defaultValue false */
  readonly isLogged?: boolean
  /** Names this process: 63 bits as a decimal number that no other process has had. @defaultValue random */
  readonly member?: string
  /** Called at the opening with a sentence for the operator where the server loses commits in a crash. */
  readonly onNotDurable?: ((detail: string) => void) | undefined
  /** Channels that this process serves, for the others. @defaultValue unknown to them */
  readonly channels?: readonly Channel[]
  /** Called where the registration of this process has ended: it writes nothing more. */
  readonly onFenced?: () => void
}

/** A right to send is good for this time from the asking, ms: what forbids a call waits as long before its answer. */
export const rightMs = 250
const noRights: BegunRights = { begun: new Map(), servers: new Map(), holds: undefined, askedAt: 0 }

/**
 * Opens the store, and creates or completes its schema.
 * @throws SluiceError INVALID_CONFIG where it cannot be used, with the way out
 */
export async function openPostgresStore({
  address,
  clock,
  version,
  alone,
  isLogged = false,
  member = newMemberId(),
  onNotDurable,
  channels,
  onFenced,
}: PostgresStoreOptions): Promise<Store> {
  let connection: Connection | undefined
  try {
    connection = await connect(address)
    await migrate(connection, address)
    await enter(connection, address, alone)
    if (!alone) await takeServerClock(connection, clock)
    const detail = await notDurable(connection, address)
    if (detail !== undefined) onNotDurable?.(detail)
    const { unsettled, erasureKey } = await register(connection, {
      id: member,
      version,
      channels,
      now: clock.now(),
      alone,
    })
    const [row] = await connection.query<{ epoch: number }>('SELECT open_epoch($1) AS epoch', [member])
    const opened = { address, clock, alone, isLogged, member, connection, unsettled, erasureKey, onFenced }
    return storeOf({ ...opened, epoch: row!.epoch })
  } catch (error) {
    await connection?.close()
    throw startFault(error, address)
  }
}

interface Opened {
  readonly address: PostgresAddress
  readonly clock: Clock
  readonly member: string
  readonly connection: Connection
  readonly epoch: number
  readonly alone: boolean
  readonly isLogged: boolean
  readonly unsettled: boolean
  readonly erasureKey: Buffer
  readonly onFenced: (() => void) | undefined
}

function storeOf(opened: Opened): Store {
  const { address, clock, alone, isLogged, member, connection, epoch, unsettled, erasureKey } = opened
  let isOpen = true
  let claimedUntil = Number.NEGATIVE_INFINITY
  let claims = 0
  /** Claims whose answers were lost: what they took is freed before the next one. */
  let lostClaims: number[] = []
  /** The tenant at which the last fair page ended. */
  let lastTenant = ''
  const pool = createReadPool(address)
  const db: Db = {
    async query(text, values, options) {
      if (!isOpen) throw closed(address)
      try {
        return await pool.query(text, values, options)
      } catch (error) {
        throw storeFault(error, address)
      }
    },
  }
  const pseudonymOf = createPseudonyms(erasureKey)
  const writer = createWriter({
    address,
    clock,
    member,
    connection,
    epoch,
    alone,
    isLogged,
    pseudonymOf,
    claimedUntil: () => claimedUntil,
    onFenced: opened.onFenced,
  })
  const refusedCommits = new RefusedCommits(clock)
  const read = readRowsFor(member)
  const lists = createLists(db, member, read)

  async function readRecipients(
    keys: readonly { readonly tenant: string; readonly recipient: string }[],
  ): Promise<readonly (StoredRecipient | undefined)[]> {
    if (keys.length === 0) return []
    const names = keys.map(({ tenant, recipient }, n) => ({
      n,
      tenant,
      recipient,
      pseudonym: pseudonymOf(tenant, recipient),
    }))
    const rows = await db.query<{
      own: StoredRecipient | null
      left: StoredRecipient | null
      version: number | null
      leftVersion: number | null
    }>(
      `SELECT r.body AS own, r.version, e.body AS "left", e.version AS "leftVersion" FROM json_to_recordset($1)
          AS k(n int, tenant text, recipient text, pseudonym text)
        LEFT JOIN recipient r ON r.tenant = k.tenant AND r.id = k.recipient
        LEFT JOIN recipient e ON e.tenant = k.tenant AND e.id = k.pseudonym ORDER BY n`,
      [JSON.stringify(names)],
      { name: 'recipients' },
    )
    return rows.map(({ own, left, version, leftVersion }, index) => {
      if (own !== null) return alone ? own : { ...own, version: version! }
      if (left === null) return undefined
      const erased: StoredRecipient = { ...left, id: keys[index]!.recipient, erased: left.id }
      return alone ? erased : { ...erased, left: leftVersion! }
    })
  }

  /** Names what an erasure may have left of a recipient that nobody has saved, as far as the asker knows. */
  const askedRight = ({ notification, recipient }: RightRequest): AskedRight => {
    if (alone || recipient === undefined || recipient?.version !== undefined) return { notification }
    return { notification, pseudonym: pseudonymOf(notification.tenant, notification.to.id) }
  }

  const readOne = gatherReads({ read: readRecipients })

  return {
    unsettled,
    isVersioned: !alone,
    othersCallForMs: alone ? 0 : rightMs,
    feedback: createFeedback(db, pseudonymOf),
    ...(isLogged ? { outbox: createOutbox(db) } : {}),
    intake: createIntake(db),
    leftToBroker: createLeftToBroker({ db, writer, member, read }),
    ...lists,
    ...createAdmissions(db, pseudonymOf, read),
    ...createBacklogReads(db),
    ...createDigestReads(db),
    ...createJobReads(db, member),
    ...createTakeover({ db, writer, member, read }),
    ...(alone ? {} : createTemplatesOnRecord(db, member)),
    ...createWaitingContents(db),
    ...createErasures({ db, writer, pseudonymOf, clock, isLogged }),

    async commit(change) {
      if (!isOpen) throw closed(address)
      checkPaths(change)
      try {
        const result = await writer.commit(change)
        refusedCommits.noteCommitted(change)
        return result
      } catch (error) {
        refusedCommits.noteFailed(error)
        throw error
      }
    },
    async isApplied(change) {
      // Behind every change that was sent; a connection that was lost is replaced, and what it carried is fenced.
      await writer.task(async () => {})
      return isOnRecord(this, change, lists.written)
    },
    async begin(of): Promise<GivenRights> {
      const { begun, servers, holds, askedAt } =
        of.length === 0 ? noRights : await writer.begin(of.map(askedRight))
      const refused = new Set<string>()
      const outdated = new Set<string>()
      for (const { notification, recipient } of of) {
        const version = begun.get(notification.id)
        if (version === undefined) refused.add(notification.id)
        else if (recipient !== undefined && versionAsRead(recipient) !== version)
          outdated.add(notification.id)
      }
      return {
        refused,
        forMs: rightMs,
        askedAt,
        ...(alone ? {} : { outdated }),
        ...(servers.size === 0 ? {} : { servers }),
        ...(holds === undefined ? {} : { holds }),
      }
    },

    async recipient(tenant, recipient) {
      if (!isText(recipient)) return undefined
      return readOne({ tenant, recipient })
    },
    recipients: async (keys) => (keys.length === 1 ? [await readOne(keys[0]!)] : readRecipients(keys)),
    mayHave: () => true,

    async claimDue(until, limit, without = [], passed = [], missing = []) {
      const tenants = [...without]
      return writer.task(async ({ epoch, query }) => {
        if (lostClaims.length > 0) {
          await query('SELECT free_claims($1, $2, $3)', [member, epoch, lostClaims])
          lostClaims = []
        }
        claims += 1
        const claim = claims
        lostClaims.push(claim)
        const [first, ...rows] = await query<{ upto: number | null; claimed: WholeRow }>(
          'SELECT * FROM claim_due($1, $2, $3, $4, $5, $6, $7, $8, $9)',
          [member, epoch, claim, until, limit, tenants, lastTenant, passed, missing],
        )
        lostClaims = []
        claimedUntil = Math.max(claimedUntil, first!.upto ?? claimedUntil)
        lastTenant = rows.at(-1)?.claimed.tenant ?? lastTenant
        return rows.map(({ claimed }) => read(claimed))
      })
    },
    claimedUntil: () => claimedUntil,
    async releaseDue(notifications) {
      const ids = notifications.map(({ id }) => id)
      await writer.task(({ epoch, query }) => query('SELECT release_due($1, $2, $3)', [member, epoch, ids]))
    },
    async nextDueAt() {
      const [row] = await db.query<{ due_at: number }>(
        'SELECT due_at FROM live WHERE owner IS NULL ORDER BY due_at LIMIT 1',
      )
      return row?.due_at
    },

    async answer({ tenant, module, method, path, key }) {
      const [row] = await db.query<{ hash: string; status: number; body: string; created_at: number }>(
        `SELECT hash, status, body, created_at FROM answer
          WHERE tenant = $1 AND module = $2 AND method = $3 AND path = $4 AND key = $5`,
        [tenant, module, method, path, key],
      )
      if (row === undefined) return undefined
      const { hash, status, body, created_at } = row
      return {
        ...{ tenant, module, method, path, key },
        requestHash: hash,
        status,
        body,
        createdAt: created_at,
      }
    },
    async accounts() {
      return (await db.query<{ body: never }>('SELECT body FROM account')).map(({ body }) => body)
    },
    async holds() {
      return (await db.query<{ body: never }>('SELECT body FROM hold')).map(({ body }) => body)
    },

    async tallies() {
      const rows = await db.query<{ tenant: string; kind: number; count: number; bytes: number }>(
        `SELECT tenant, kind, sum(count)::bigint AS count, sum(bytes)::bigint AS bytes FROM tally
          GROUP BY tenant, kind HAVING sum(count) <> 0`,
      )
      const counted = rows.filter(({ kind }) => !isJobKind(kind))
      return counted.map(({ tenant, kind, count, bytes }) => {
        const status: Status = statusOf(kind >> 1)
        const isApart = kind % 2 === 1
        return {
          tenant,
          status,
          throttled: isApart && status === 'scheduled',
          ...(isApart && status === 'dead' ? { unserved: true as const } : {}),
          count,
          bytes,
        }
      })
    },
    delivered: (query) => countDelivered(db, query),
    async content(tenant, id) {
      if (!isText(id)) return undefined
      const [row] = await db.query<{ bytes: number; body: Partial<SharedContent> }>(
        `SELECT bytes, body FROM content c WHERE id = $1 AND tenant = $2
          AND (EXISTS (SELECT FROM notification n WHERE n.shared = c.id)
            OR EXISTS (SELECT FROM job j WHERE j.shared = c.id AND j.status = 'running'))`,
        [id, tenant],
      )
      return row === undefined ? undefined : { id, tenant, bytes: row.bytes, ...row.body }
    },
    async timeLine() {
      const [row] = await db.query<{ value: never }>("SELECT value FROM meta WHERE name = 'time line'")
      return row?.value
    },
    async keepTimeLine(line) {
      await writer.task(({ query }) =>
        query(
          "INSERT INTO meta VALUES ('time line', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
          [JSON.stringify(line)],
        ),
      )
    },
    ping: createPing({ refused: refusedCommits, writer, member, address }),
    prune: (before) => prune({ writer, member }, before),

    async close(isSettled = true) {
      if (!isOpen) return
      try {
        await writer.close(async ({ query }) => {
          const patience = { answerMs: takeOverMs }
          await query(`SET statement_timeout = ${takeOverMs}`)
          if (isSettled)
            await query(
              'UPDATE live SET begun_at = NULL WHERE owner > 0 AND owner + 0 = $1',
              [member],
              patience,
            )
          // Unsettled, the rows stay to the process that takes them over, and what was begun counts as perhaps sent.
          if (isSettled) await query('SELECT settle_member($1, $2)', [member, clock.now()], patience)
          else if (!alone) await query('SELECT declare_dead($1)', [member])
        })
      } finally {
        isOpen = false
        await pool.close()
      }
    },
  }
}

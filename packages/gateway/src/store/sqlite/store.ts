/**
 * The embedded store: port `Store` on node:sqlite, one file, nothing to install. Read it in the order of a commit: a
 * change is encoded into a change log (change-log.ts), waits for its group (group.ts), goes to the engine
 * (engine-client.ts, engine.ts) and is written with the others in one durable transaction (writer.ts). Questions take
 * the same way, and their rows are decoded here. Decision record 0003 has the figures.
 */
import { SluiceError } from '../../errors.ts'
import type { Notification } from '../../model.ts'
import type { Change, Clock, GivenRights, Page, Store, Tally } from '../../ports.ts'
import { isOnRecord } from '../commit-lookup.ts'
import { erasureRecord, textOf } from '../log-records.ts'
import { orderOf } from '../memory/memory-admissions.ts'
import { type Readable, RowDamage } from './codec/checksum.ts'
import { type Row, readAdmission, readNotification } from './codec/rows.ts'
import { type DatabaseOptions, inMemory, nameOf } from './database.ts'
import { createBloomFilter, type Kind } from './indexes/bloom-filter.ts'
import type { ScanCursor, ScanPage } from './indexes/recipient-scan.ts'
import { readWork } from './job-work.ts'
import { createLargeValues } from './large-values.ts'
import { createRecipientReads } from './recipient-reads.ts'
import { createSqliteFeedback, createSqliteIntake, createSqliteOutbox } from './separate-records.ts'
import { closed, retryAfterMs } from './sqlite-errors.ts'
import { unpackBacklog } from './tables/backlog.ts'
import { createDamagedRows, type DamagedRow } from './tables/damaged-rows.ts'
import type { Erased } from './tables/erasures.ts'
import { createPseudonyms } from './tables/pseudonyms.ts'
import { createSqliteTakeover } from './takeover.ts'
import { errorOf, type Fault, faultOf } from './worker/engine.ts'
import type { EngineClient } from './worker/engine-client.ts'
import { createGroup } from './worker/group.ts'
import { openInProcess } from './worker/in-process.ts'
import { type PackedPage, unpack } from './worker/packed-rows.ts'
import { openWorker } from './worker/worker-client.ts'

export interface SqliteStoreOptions extends DatabaseOptions {
  readonly clock: Clock
  /** True if a thread of its own writes the file. @defaultValue true for a file, false in memory */
  readonly thread?: boolean
  /** True to keep changes of state in an outbox for the delivery log. @defaultValue false */
  readonly isLogged?: boolean
  /** Called once for each row that cannot be read, with the move to commit. @defaultValue no callback */
  readonly onDamagedRow?: (row: DamagedRow) => void
}

export interface SqliteStore extends Store {
  /** Names the file in a place that it shares with others: 16 hexadecimal digits. A copy of the file has the same name. */
  readonly name: string
  /** Reads every page of the file; throws STORE_UNAVAILABLE where it is damaged. */
  check(): Promise<void>
  /** Changes since the opening, and the transactions that they shared, each of them one fsync. */
  counters(): Promise<{ readonly transactions: number; readonly changes: number }>
}

/** Rows that `prune` examines in one transaction. */
const pruneSlice = 500
/** Rows of a recipient that are erased in one transaction: some 5 ms. */
const eraseSlice = 200
/** Each try waits for readers up to 100 ms (busy_timeout): pages of lists take some milliseconds. */
const emptyLogTriesMax = 3
/** Stored answers that are examined in one transaction. */
const answersSlice = 1_000

/** The number of admissions of an erased recipient that are read. */
const erasedMax = 5_000
/** The file has one owner, and the ledger knows which versions this process has replaced. */
const ownRights: GivenRights = { refused: new Set(), forMs: Number.POSITIVE_INFINITY }

/**
 * Opens or creates the store.
 * @throws SluiceError INVALID_CONFIG where the file is in use, cannot be opened or is of a newer version;
 * STORE_UNAVAILABLE where it is damaged.
 */
export function createSqliteStore({
  clock,
  thread,
  isLogged = false,
  onDamagedRow = () => {},
  ...options
}: SqliteStoreOptions): SqliteStore {
  const { path } = options
  const damagedRows = createDamagedRows(onDamagedRow, () => clock.now())
  let damage: Fault | undefined
  let isOpen = true

  const onFault = (fault: Fault): void => {
    if (fault.damage === true) damage ??= fault
    if (fault.row !== undefined) damagedRows.note(fault.row)
  }
  const raise = (fault: Fault): Error => {
    onFault(fault)
    return errorOf(fault)
  }
  const open = (thread ?? path !== inMemory) ? openWorker : openInProcess
  const engine = open({ ...options, now: clock.now(), onFault })
  const group = createGroup({ clock, isLogged, write: engine.write, raise })
  const largeValues = createLargeValues({
    firstKey: engine.partsKey,
    write: engine.write,
    raise,
    commit(change, ahead) {
      const committed = group.commit(change, ahead)
      if (!isOpen) group.flush()
      return committed
    },
    // Where that fails, the next opening drops them.
    drop: (keys) => engine.ask('dropParts', keys).catch(() => {}),
  })

  const ask: EngineClient['ask'] = async (name, ...args) => {
    if (!isOpen) throw closed(path)
    return engine.ask(name, ...args)
  }

  /** Sends a read-only question, which runs beside the writes. */
  const read: EngineClient['read'] = async (name, ...args) => {
    if (!isOpen) throw closed(path)
    return engine.read(name, ...args)
  }

  const pseudonymOf = createPseudonyms(path)
  let hasErased = engine.hasErased
  const erasedOf = (tenant: string, recipient: string): Erased => ({
    tenant,
    recipient,
    pseudonym: pseudonymOf(tenant, recipient),
  })
  const erasing = async (): Promise<readonly Erased[]> =>
    hasErased
      ? (await ask('erasuresPending')).map(({ tenant, recipient }) => erasedOf(tenant, recipient))
      : []
  const bloomFilter = createBloomFilter(engine.hashKey)
  /** Looks up the recipient under its own name, and under the pseudonym of an erased recipient. */
  const isNew = (what: Kind, tenant: string, id: string): boolean =>
    bloomFilter.has(what, tenant, id) &&
    (!hasErased || bloomFilter.has(what, tenant, pseudonymOf(tenant, id)))
  const recipientReads = createRecipientReads({
    ask: (keys) => ask('recipients', keys),
    isNew: (tenant, recipient) => isOpen && isNew('preferences', tenant, recipient),
    pseudonymOf: (tenant, recipient) => (hasErased ? pseudonymOf(tenant, recipient) : undefined),
    damaged: (row) => raise(faultOf(new RowDamage(row), path)),
  })
  engine.ask('damagedAnswers').then(
    (rows) => rows.forEach(damagedRows.note),
    // Every later call rejects with the error that keeps the store from opening.
    () => {},
  )
  // Where loading fails or a close cuts it short, every recipient counts as known and is looked up.
  bloomFilter.load(pageAfter).catch(() => {})

  async function pageAfter(cursor: ScanCursor): Promise<ScanPage> {
    const page = await ask('known', cursor)
    if (page.next !== undefined) await new Promise<void>((resolve) => clock.soon(resolve))
    return page
  }

  function meet({ accept = [], recipients = [] }: Change): void {
    for (const { tenant, to } of accept) bloomFilter.meet('notifications', tenant, to.id)
    for (const { tenant, id } of recipients) bloomFilter.meet('preferences', tenant, id)
  }

  /** Decodes rows; a wrong checksum is reported as damage. */
  function valuesOf<T>(rows: readonly Row[], reader: (row: Row) => T): readonly T[] {
    try {
      return damagedRows.read(rows, reader)
    } catch (error) {
      throw raise(faultOf(error, path))
    }
  }
  function readableOf<T>({ found, damaged }: Readable<T>): readonly T[] {
    for (const what of damaged) damagedRows.note(what)
    return found
  }
  const notifications = (rows: readonly Row[]): readonly Notification[] => valuesOf(rows, readNotification)

  /** Decodes a page, a slice in each turn of the event loop. */
  async function pageOf({ slices, nextCursor }: PackedPage): Promise<Page<Notification>> {
    const items: Notification[] = []
    for (const [index, slice] of slices.entries()) {
      if (index > 0) await engine.pause()
      items.push(...notifications(unpack(slice)))
    }
    return { items, nextCursor }
  }

  /** @throws STORE_UNAVAILABLE where another connection goes on reading an older state */
  async function emptyLog(): Promise<void> {
    while (await ask('dropPart'));
    for (let tries = 0; tries < emptyLogTriesMax; tries += 1) {
      if (await ask('emptyLog')) return
      await new Promise<void>((resolve) => clock.soon(resolve))
    }
    const why = 'another program that reads it keeps what was erased in its log'
    throw new SluiceError('STORE_UNAVAILABLE', `The store ${path} is not done: ${why}.`, { retryAfterMs })
  }

  /** Runs slice after slice, with room for commits between them. */
  async function untilDone(slice: () => Promise<boolean>): Promise<void> {
    while (!(await slice())) await new Promise<void>((resolve) => clock.soon(resolve))
  }

  const claimDue: Store['claimDue'] = async (until, limit, without = []) =>
    notifications(await ask('claimDue', until, limit, [...without]))

  return {
    name: nameOf(engine.hashKey),
    unsettled: engine.unsettled,
    isVersioned: false,
    othersCallForMs: 0,
    begin: () => ownRights,
    feedback: createSqliteFeedback({ ask, read, erasing, pageOf, onDamaged: damagedRows.note, untilDone }),
    ...(isLogged ? { outbox: createSqliteOutbox({ ask, read, onDamaged: damagedRows.note }) } : {}),
    intake: createSqliteIntake({ ask, read, onDamaged: damagedRows.note, untilDone }),
    ...createSqliteTakeover({
      claimDue,
      claimedUntil: engine.claimedUntil,
      suspectedAt: () => ask('suspectedAt'),
    }),
    async commit(change) {
      if (!isOpen) throw closed(path)
      if (damage !== undefined) throw errorOf(damage)
      const committed = largeValues.areIn(change) ? largeValues.commit(change) : group.commit(change)
      meet(change)
      return await committed
    },
    async isApplied(change) {
      group.flush()
      await largeValues.settled()
      // Answered by the writer's thread after every change that was sent to it.
      await ask('counters')
      return isOnRecord(this, change)
    },
    async notification(tenant, id) {
      const row = await read('notification', tenant, id)
      if (row === undefined) return undefined
      const [found] = notifications([row])
      if (found === undefined) throw errorOf(faultOf(new RowDamage(`notification ${id}`), path))
      return found
    },
    async list(query) {
      const { recipient, order } = query
      if (order !== undefined) return pageOf(await read('listDue', query, await ask('duePlaces', query)))
      const noted = recipient === undefined ? [] : await ask('notedRows', query.tenant, recipient)
      return pageOf(await read('list', query, noted))
    },
    async deadLetters(query) {
      return pageOf(await read('deadLetters', query))
    },
    async scan(query) {
      const { rows, nextCursor } = await ask('scan', query)
      return { items: notifications(rows), nextCursor }
    },
    mayHave: (what, tenant, id) => !isOpen || !isNew(what, tenant, id),
    ...recipientReads,
    async waiting(tenant, recipient, cursor, limit) {
      const { rows, nextCursor } = await ask('waiting', tenant, recipient, cursor, limit)
      return { items: notifications(rows), nextCursor }
    },
    async admissions(query) {
      const { tenant, recipient } = query
      if (isOpen && recipient !== undefined && isNew('notifications', tenant, recipient)) return []
      const own = valuesOf(await ask('admissions', query), readAdmission)
      if (!hasErased || recipient === undefined) return own
      const ofErased = { ...query, recipient: pseudonymOf(tenant, recipient) }
      const left = valuesOf(await ask('admissions', ofErased), readAdmission)
      const back = left.map((each) => ({ ...each, to: { ...each.to, id: recipient } }))
      return [...own, ...back].sort((a, b) => orderOf(b) - orderOf(a)).slice(0, query.limit)
    },
    async counted(query) {
      const { tenant, recipient, cursor } = query
      if (isOpen && recipient !== undefined && isNew('notifications', tenant, recipient))
        return { items: [], nextCursor: null }
      const { rows, nextCursor } = await ask('counted', query)
      const items = valuesOf(rows, readAdmission)
      if (!hasErased || recipient === undefined || cursor !== undefined) return { items, nextCursor }
      // Nothing of an erased recipient waits: the newest of what was sent are all that a limit counts.
      const ofErased = {
        tenant,
        recipient: pseudonymOf(tenant, recipient),
        since: query.since,
        limit: erasedMax,
      }
      const left = valuesOf(await ask('admissions', ofErased), readAdmission)
      return {
        items: [...left.map((each) => ({ ...each, to: { ...each.to, id: recipient } })), ...items],
        nextCursor,
      }
    },
    inThrottleQueue: async (query) => valuesOf(await ask('inThrottleQueue', query), readAdmission),
    claimDue,
    claimedUntil: engine.claimedUntil,
    releaseDue: (given) =>
      ask(
        'releaseDue',
        given.map(({ id }) => id),
      ),
    openDigest: ({ tenant, recipient, channel, category, name }) =>
      ask('openDigest', { tenant, recipient, channel, category, name }),
    digest: (id) => ask('digest', id),
    dueDigests: async (until, limit) => readableOf(await ask('dueDigests', until, limit)),
    async digestItems({ id }, cursor, limit) {
      const { rows, nextCursor } = await ask('digestItems', id, cursor, limit)
      return { items: notifications(rows), nextCursor }
    },
    async orphans(cursor, limit) {
      const { rows, nextCursor } = await ask('orphans', cursor, limit)
      return { items: notifications(rows), nextCursor }
    },
    nextDueAt: () => ask('nextDueAt'),
    nextDigestAt: () => ask('nextDigestAt'),
    answer: ({ tenant, module, method, path, key }) => ask('answer', { tenant, module, method, path, key }),
    job: (tenant, id) => ask('job', tenant, id),
    async jobWork({ tenant, id }) {
      const work = await read('jobWork', { tenant, id })
      return work === undefined ? undefined : readWork(work)
    },
    runningJobs: async () => readableOf(await ask('runningJobs')),
    jobMembers: ({ tenant, id }) => read('jobMembers', tenant, id),
    accounts: async () => readableOf(await ask('accounts')),
    holds: async () => readableOf(await ask('holds')),
    backlog: async () => unpackBacklog(await ask('backlog')),
    delivered: (query) => read('delivered', query),
    tallies: () => ask('tallies'),
    content: (tenant, id) => read('content', tenant, id),
    waitingContents: () => ask('waitingContents'),
    timeLine: () => ask('timeLine'),
    keepTimeLine: (line) => ask('keepTimeLine', line),
    async beginErasure(tenant, recipient) {
      const erased = erasedOf(tenant, recipient)
      for (const what of ['preferences', 'notifications'] as const)
        bloomFilter.meet(what, tenant, erased.pseudonym)
      hasErased = true
      await ask('eraseBegin', erased)
    },
    async erase(tenant, recipient) {
      const erased = erasedOf(tenant, recipient)
      /** None, where another erasure of the recipient has ended this one. */
      let until = -1
      for (let more = true; more; ) {
        const slice = await ask('eraseRows', erased, eraseSlice)
        if ('open' in slice) return { done: false, open: slice.open }
        more = slice.more
        until = slice.until ?? until
      }
      for (let after: number | undefined = 0; after !== undefined; )
        after = await ask('eraseAnswers', erased, after, answersSlice)
      // The log is emptied twice: the overwritten rows leave it before the erasure is reported, and so does the name
      // itself.
      await emptyLog()
      const log = isLogged ? [textOf([erasureRecord(tenant, recipient, clock.now())])] : []
      await ask('eraseFinish', erased, until, log)
      await emptyLog()
      return { done: true }
    },
    erasures: () => ask('erasuresPending'),
    async ping() {
      if (damage !== undefined) throw errorOf(damage)
      await ask('ping', clock.now())
    },
    check: () => ask('check'),
    counters: () => ask('counters'),

    async prune(before) {
      let rows = 0
      const tallies: Tally[] = []
      const untilFew = (slice: () => Promise<number>): Promise<void> =>
        untilDone(async () => {
          const dropped = await slice()
          rows += dropped
          return dropped < pruneSlice
        })
      await untilFew(() => ask('pruneAnswers', before.answers, pruneSlice))
      let from = 0
      await untilDone(async () => {
        const { dropped, next } = await ask('pruneNotifications', before.notifications, from, pruneSlice)
        tallies.push(...dropped)
        from = next ?? from
        return next === undefined
      })
      await untilFew(() => ask('pruneJobs', before.notifications, pruneSlice))
      const oldestAt = await ask('oldestAt')
      rows += tallies.reduce((sum, { count }) => sum + count, 0)
      return oldestAt === undefined ? { rows, tallies } : { rows, tallies, oldestAt }
    },

    async close(isSettled = true) {
      if (!isOpen) return
      group.flush()
      isOpen = false
      await largeValues.settled()
      await engine.close(isSettled)
    },
  }
}

/**
 * The embedded store: port `Store` on node:sqlite, one file, nothing to install. Read it in the order of a commit: a
 * change becomes a tape (tape.ts), waits for its group (group.ts), goes to the engine (link.ts, engine.ts) and is
 * written with the others in one durable transaction (writer.ts). Questions take the same way, and their rows are read
 * here. Decision record 0003 has the figures.
 */
import type { Notification, Recipient } from '../../../model.ts'
import type { Change, Clock, Store, Tally } from '../../../ports.ts'
import type { DatabaseOptions } from './database.ts'
import { inMemory } from './database.ts'
import type { Fault } from './engine.ts'
import { errorOf, faultOf } from './engine.ts'
import { closed } from './faults.ts'
import { createGroup } from './group.ts'
import type { KnownCursor, KnownPage } from './known.ts'
import type { Link } from './link.ts'
import type { Row } from './rows.ts'
import { readAdmission, readNotification } from './rows.ts'
import { openStraight } from './straight.ts'
import { createStrangers } from './strangers.ts'
import { openThreaded } from './threaded.ts'

export interface SqliteStoreOptions extends DatabaseOptions {
  readonly clock: Clock
  /** Whether the file is written by a thread of its own. @defaultValue true for a file, false in memory */
  readonly thread?: boolean
}

export interface SqliteStore extends Store {
  /** Reads every page of the file; throws STORE_UNAVAILABLE where it is damaged. */
  check(): Promise<void>
  /** Since the opening: changes, and the transactions that they shared, each of them one fsync. */
  counters(): Promise<{ readonly transactions: number; readonly changes: number }>
}

/** Rows that `prune` looks at in one transaction. */
const pruneSlice = 500

/**
 * Opens or makes the store.
 * @throws SluiceError INVALID_CONFIG where the file is in use, cannot be opened or is of a newer version;
 * STORE_UNAVAILABLE where it is damaged.
 */
export function createSqliteStore({ clock, thread, ...options }: SqliteStoreOptions): SqliteStore {
  const { path } = options
  let damage: Fault | undefined
  let isOpen = true

  const onFault = (fault: Fault): void => {
    if (fault.damage === true) damage ??= fault
  }
  const raise = (fault: Fault): Error => {
    onFault(fault)
    return errorOf(fault)
  }
  const open = (thread ?? path !== inMemory) ? openThreaded : openStraight
  const link = open({ ...options, now: clock.now(), onFault })
  const group = createGroup({ clock, write: link.write, raise })

  const ask: Link['ask'] = async (name, ...args) => {
    if (!isOpen) throw closed(path)
    return link.ask(name, ...args)
  }

  /** What only reads, beside what is written. */
  const read: Link['read'] = async (name, ...args) => {
    if (!isOpen) throw closed(path)
    return link.read(name, ...args)
  }

  const strangers = createStrangers(link.hashKey)
  // Where that fails or is cut short by a close, nobody is a stranger, and everybody is asked for.
  strangers.load(pageAfter).catch(() => {})

  async function pageAfter(cursor: KnownCursor): Promise<KnownPage> {
    const page = await ask('known', cursor)
    if (page.next !== undefined) await new Promise<void>((resolve) => clock.soon(resolve))
    return page
  }

  function meet({ accept = [], recipients = [] }: Change): void {
    for (const { tenant, to } of accept) strangers.meet('notifications', tenant, to.id)
    for (const { tenant, id } of recipients) strangers.meet('preferences', tenant, id)
  }

  /** Rows become values here, and a sum that is wrong becomes known. */
  function valuesOf<T>(rows: readonly Row[], reader: (row: Row) => T): readonly T[] {
    try {
      return rows.map(reader)
    } catch (error) {
      throw raise(faultOf(error, path))
    }
  }
  const notifications = (rows: readonly Row[]): readonly Notification[] => valuesOf(rows, readNotification)

  /** Slice after slice, with room for commits between them. */
  async function untilDone(slice: () => Promise<boolean>): Promise<void> {
    while (!(await slice())) await new Promise<void>((resolve) => clock.soon(resolve))
  }

  return {
    async commit(change) {
      if (!isOpen) throw closed(path)
      if (damage !== undefined) throw errorOf(damage)
      const committed = group.commit(change)
      meet(change)
      return await committed
    },
    async notification(tenant, id) {
      const row = await read('notification', tenant, id)
      return row === undefined ? undefined : notifications([row])[0]
    },
    async list(query) {
      const { recipient } = query
      const noted = recipient === undefined ? [] : await ask('notedRows', query.tenant, recipient)
      const { rows, nextCursor } = await read('list', query, noted)
      return { items: notifications(rows), nextCursor }
    },
    async deadLetters(query) {
      const { rows, nextCursor } = await read('deadLetters', query)
      return { items: notifications(rows), nextCursor }
    },
    async scan(query) {
      const { rows, nextCursor } = await ask('scan', query)
      return { items: notifications(rows), nextCursor }
    },
    mayHave: (what, tenant, id) => !isOpen || !strangers.has(what, tenant, id),
    async recipient(tenant, id) {
      if (isOpen && strangers.has('preferences', tenant, id)) return undefined
      const body = await ask('recipient', tenant, id)
      return body === undefined ? undefined : (JSON.parse(body) as Recipient)
    },
    waiting: async (tenant, recipient) => notifications(await ask('waiting', tenant, recipient)),
    async admissions(query) {
      const { tenant, recipient } = query
      if (isOpen && recipient !== undefined && strangers.has('notifications', tenant, recipient)) return []
      return valuesOf(await ask('admissions', query), readAdmission)
    },
    inLine: async (query) => valuesOf(await ask('inLine', query), readAdmission),
    claimDue: async (until, limit) => notifications(await ask('claimDue', until, limit)),
    claimedUntil: link.claimedUntil,
    unclaim: (given) =>
      ask(
        'unclaim',
        given.map(({ id }) => id),
      ),
    openDigest: ({ tenant, recipient, channel, category, name }) =>
      ask('openDigest', { tenant, recipient, channel, category, name }),
    dueDigests: (until, limit) => ask('dueDigests', until, limit),
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
    jobWork: ({ tenant, id }) => ask('jobWork', { tenant, id }),
    runningJobs: () => ask('runningJobs'),
    jobMembers: ({ tenant, id }) => read('jobMembers', tenant, id),
    accounts: () => ask('accounts'),
    tallies: () => ask('tallies'),
    content: (tenant, id) => ask('content', tenant, id),
    waitingContents: () => ask('waitingContents'),
    timeLine: () => ask('timeLine'),
    keepTimeLine: (line) => ask('keepTimeLine', line),
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
      return { rows: tallies.reduce((sum, { count }) => sum + count, rows), tallies }
    },

    async close() {
      if (!isOpen) return
      group.flush()
      isOpen = false
      await link.close()
    },
  }
}

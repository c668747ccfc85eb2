/**
 * The embedded store: port `Store` on node:sqlite, one file, nothing to install. Read it as four parts: a database
 * with one owner (database.ts), a group commit (group.ts) whose writer applies changes (writer.ts), a line through
 * what is due (claims.ts), and the questions, one file each. Decision record 0003 has the figures.
 */
import type { Clock, Store } from '../../../ports.ts'
import { prepareAdmissions } from './admissions.ts'
import { prepareAnswers } from './answers.ts'
import { createClaims } from './claims.ts'
import type { Database, DatabaseOptions } from './database.ts'
import { checkHealth, markOpen, openDatabase } from './database.ts'
import { prepareDigests } from './digests.ts'
import { prepareDue } from './due.ts'
import { closed, diskFault, isDamage } from './faults.ts'
import { createGroup } from './group.ts'
import { prepareHistory } from './history.ts'
import { prepareListing } from './listing.ts'
import { prepareNotificationWrites } from './notifications.ts'
import { prepareRecipients } from './recipients.ts'
import { createRegister } from './register.ts'
import { prepareTallies } from './tallies.ts'
import { checkPaths, createWriter } from './writer.ts'

export interface SqliteStoreOptions extends DatabaseOptions {
  readonly clock: Clock
}

export interface SqliteStore extends Store {
  /** Reads every page of the file; throws STORE_UNAVAILABLE where it is damaged. */
  check(): Promise<void>
}

/** Rows that `prune` looks at in one transaction. */
const pruneSlice = 500

/**
 * Opens or makes the store.
 * @throws SluiceError INVALID_CONFIG where the file is in use, cannot be opened or is of a newer version;
 * STORE_UNAVAILABLE where it is damaged.
 */
export function createSqliteStore(options: SqliteStoreOptions): SqliteStore {
  const { clock } = options
  const database = openDatabase(options)
  try {
    return createStore(database, clock)
  } catch (error) {
    database.abandon()
    throw diskFault(error, database.path) ?? error
  }
}

function createStore(database: Database, clock: Clock): SqliteStore {
  const { db, path } = database
  const claims = createClaims()
  const due = prepareDue(db, claims)
  const digests = prepareDigests(db)
  const recipients = prepareRecipients(db)
  const answers = prepareAnswers(db, database.hashKey)
  const register = createRegister(db, database.hashKey)
  const tallies = prepareTallies(db)
  const listing = prepareListing(db, register)
  const admissions = prepareAdmissions(db, register)
  const history = prepareHistory(db, tallies, register)
  const notifications = prepareNotificationWrites(db, register)
  const writer = createWriter({ db, claims, notifications, digests, recipients, answers, tallies, register })
  const stamp = db.prepare("INSERT OR REPLACE INTO meta VALUES ('ping', ?)")
  let damage: Error | undefined
  let isOpen = true

  writer.transaction(() => {
    if (database.crashed) due.suspect(clock.now())
    markOpen(db)
  })

  function faultOf(error: unknown): Error | undefined {
    const fault = diskFault(error, path)
    if (fault !== undefined && isDamage(error)) damage ??= fault
    return fault
  }

  /** Every touch of the file goes through here, so that its troubles get their names in one place. */
  async function touch<T>(work: () => T | Promise<T>): Promise<T> {
    if (!isOpen) throw closed(path)
    try {
      return await work()
    } catch (error) {
      throw faultOf(error) ?? error
    }
  }

  const group = createGroup({ clock, write: writer.write, faultOf })

  return {
    async commit(change) {
      if (!isOpen) throw closed(path)
      if (damage !== undefined) throw damage
      checkPaths(change)
      return group.commit(change)
    },
    notification: (tenant, id) => touch(() => listing.notification(tenant, id)),
    list: (query) => touch(() => listing.list(query)),
    deadLetters: (query) => touch(() => listing.deadLetters(query)),
    recipient: (tenant, id) => touch(() => recipients.find(tenant, id)),
    waiting: (tenant, recipient) => touch(() => listing.waiting(tenant, recipient)),
    admissions: (query) => touch(() => admissions.read(query)),
    claimDue: (until, limit) => touch(() => due.claim(until, limit)),
    claimedUntil: () => claims.claimedUntil,
    unclaim: (given) => touch(() => due.unclaim(given)),
    openDigest: (digest) => touch(() => digests.find(digest)),
    dueDigests: (until, limit) => touch(() => digests.due(until, limit)),
    digestItems: (digest) => touch(() => listing.digestItems(digest)),
    nextDueAt: () => touch(() => due.earliest()),
    nextDigestAt: () => touch(() => digests.earliest()),
    answer: (key) => touch(() => answers.find(key)),
    tallies: () => touch(() => tallies.read()),
    ping: () =>
      touch(() => {
        if (damage !== undefined) throw damage
        writer.transaction(() => stamp.run(clock.now()))
      }),
    check: () => touch(() => checkHealth(db, path)),

    async prune(before) {
      let count = 0
      for (let more = true; more; ) {
        const dropped = await touch(() => writer.transaction(() => answers.prune(before.answers, pruneSlice)))
        count += dropped
        more = dropped === pruneSlice
      }
      for (let from: number | undefined = 0; from !== undefined; ) {
        const start: number = from
        const slice = await touch(() =>
          writer.transaction(() => history.prune(before.notifications, start, pruneSlice)),
        )
        count += slice.dropped
        from = slice.next
        if (from !== undefined) await new Promise<void>((resolve) => clock.soon(resolve))
      }
      return count
    },

    async close() {
      if (!isOpen) return
      group.flush()
      isOpen = false
      try {
        database.close()
      } catch (error) {
        throw faultOf(error) ?? error
      }
    },
  }
}

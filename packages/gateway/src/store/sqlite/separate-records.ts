/**
 * Records of the embedded store that go to the engine in transactions of their own, and not with the changes of
 * notifications: feedback, how far intakes are, and the outbox of the delivery log.
 */
import type { Notification } from '../../model.ts'
import type { Outbox } from '../../ports/delivery-log.ts'
import type { FeedbackPage, FeedbackRecord } from '../../ports/feedback.ts'
import type { IntakeRecord } from '../../ports/intake.ts'
import type { Page } from '../../ports.ts'
import type { Readable } from './codec/checksum.ts'
import type { Erased } from './tables/erasures.ts'
import type { FoundPage } from './tables/feedback.ts'
import type { EngineClient } from './worker/engine-client.ts'
import type { PackedPage } from './worker/packed-rows.ts'

export interface SqliteFeedbackOptions {
  readonly ask: EngineClient['ask']
  readonly read: EngineClient['read']
  /** Lists who is being erased, with the names that are left of them. */
  readonly erasing: () => Promise<readonly Erased[]>
  /** Decodes a page of notifications; leaves out damaged ones. */
  readonly pageOf: (page: PackedPage) => Promise<Pick<Page<Notification>, 'items'>>
  /** Hears of each row that cannot be read. */
  readonly onDamaged: (what: string) => void
  /** Runs slice after slice, with room for commits between them. */
  readonly untilDone: (slice: () => Promise<boolean>) => Promise<void>
}

/** Rows of feedback, and kept records of intakes, that are removed in one transaction. */
const feedbackSlice = 500
const poisonSlice = 100

export function createSqliteFeedback(options: SqliteFeedbackOptions): FeedbackRecord {
  const { ask, read, erasing, pageOf, onDamaged, untilDone } = options
  function found<T>({ found, damaged }: Readable<T>): readonly T[] {
    for (const what of damaged) onDamaged(what)
    return found
  }
  const feedbackPageOf = (page: FoundPage): FeedbackPage => ({
    items: found(page),
    nextCursor: page.nextCursor,
  })
  return {
    keep: (events) => ask('keepFeedback', events),
    of: async (tenant, ids) => found(await read('feedbackOf', tenant, ids)),
    keysOf: (names) => read('feedbackKeys', names),
    list: async (query) => feedbackPageOf(await read('listFeedback', query)),
    complaints: async (query) => feedbackPageOf(await read('complaints', query)),
    keepWaiting: (reports, bounds) => ask('keepWaiting', reports, bounds),
    waiting: async (limit, after) => found(await read('waitingFeedback', limit, after)),
    endWaiting: (ids) => ask('endWaiting', ids),
    keepSent: (records) => ask('keepSent', records),
    findSent: (keys, since) => read('findSent', keys, since),
    async reported(ids) {
      // Asked for first: an erasure that is not among them any more has renamed its notifications before they are read.
      const erased = await erasing()
      const { items } = await pageOf(await read('notificationsOf', ids))
      const named = items.map((item) => {
        const own = erased.find(({ tenant, recipient }) => tenant === item.tenant && recipient === item.to.id)
        return own === undefined ? item : { ...item, to: { id: own.pseudonym } }
      })
      const byId = new Map(named.map((each) => [each.id, each]))
      return ids.map((id) => byId.get(id))
    },
    async prune(before) {
      let rows = 0
      await untilDone(async () => {
        const dropped = await ask('pruneFeedback', before, feedbackSlice)
        rows += dropped
        return dropped < feedbackSlice
      })
      return rows
    },
  }
}

// ---- intakes

export function createSqliteIntake(options: Omit<SqliteFeedbackOptions, 'erasing' | 'pageOf'>): IntakeRecord {
  const { ask, read, onDamaged, untilDone } = options
  return {
    async positions(topicId) {
      const { found, damaged } = await read('intakePositions', topicId)
      for (const what of damaged) onDamaged(what)
      return found
    },
    advance: (positions) => ask('advanceIntake', positions),
    keepPoison: (records) => ask('keepPoison', records),
    async poison(query) {
      const { found, damaged, nextCursor } = await read('poison', query)
      for (const what of damaged) onDamaged(what)
      return { items: found, nextCursor }
    },
    countPoison: () => read('countPoison'),
    async prunePoison(before) {
      let rows = 0
      await untilDone(async () => {
        const dropped = await ask('prunePoison', before, poisonSlice)
        rows += dropped
        return dropped < poisonSlice
      })
      return rows
    },
  }
}

// ---- the outbox of the delivery log: read beside the writes

type SqliteOutboxOptions = Pick<SqliteFeedbackOptions, 'ask' | 'read' | 'onDamaged'>

export function createSqliteOutbox({ ask, read, onDamaged }: SqliteOutboxOptions): Outbox {
  return {
    async read(limit) {
      const { rows, damaged } = await read('outbox', limit)
      for (const what of damaged) onDamaged(what)
      return rows
    },
    remove: (positions) => ask('outboxRemove', positions),
    size: () => ask('outboxSize'),
  }
}

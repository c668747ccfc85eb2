/**
 * Decides notifications that were accepted undecided while the server of the limits did not answer: in the order of their
 * acceptance, as soon as it answers again. While it is away the first of them is tried now and then, and no other.
 */
import { isStateAway } from '../errors.ts'
import type { Notification } from '../model.ts'
import { revisionOf } from '../model.ts'
import type { Clock } from '../ports.ts'
import { createSleeper } from '../sleeper.ts'
import type { Ledger, Scheduler } from '../stages.ts'

export interface UndecidedQueueOptions {
  /** Passes the limits of its tenant, and decides it for its recipient. */
  readonly decide: (notification: Notification) => Promise<unknown>
  /** Tries a notification again later that could not be decided for another reason. */
  readonly retryLater: (notification: Notification, error: unknown) => void
  readonly ledger: Pick<Ledger, 'isCurrent' | 'live' | 'hold'>
  readonly scheduler: Pick<Scheduler, 'postpone'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly onError: (what: string, error: unknown) => void
}

export interface UndecidedQueue {
  /** Adds notifications that memory holds: as many as the scheduler has room for. */
  add(notifications: readonly Notification[]): void
  /** True if notifications of the tenant wait here: those that are accepted now wait behind them. */
  hasOf(tenant: string): boolean
  /** Decides nothing any more; the record has all that waits. Resolves when nothing is under way. */
  stop(): Promise<void>
}

/**
 * The most notifications that are decided side by side: their questions are asked in their order, and their changes share
 * commits. Decided one by one they would hardly end, for new notifications of their tenants wait behind them. After a
 * question without an answer the next round is one notification, and each round after it twice as many: a question
 * without an answer in the middle of a round would be decided after the rest of that round.
 */
const togetherMax = 64
/** Time between two tries while the server does not answer, ms. */
const retryMs = 100

export function createUndecidedQueue(options: UndecidedQueueOptions): UndecidedQueue {
  const { decide, retryLater, ledger, scheduler, clock, onError } = options
  /** In the order of acceptance, which is that of the ids. */
  let waiting: Notification[] = []
  const tenants = new Map<string, number>()
  let working: Promise<void> | undefined
  const { sleep, wakeAll } = createSleeper(clock)
  let isStopped = false

  function count({ tenant }: Notification, by: 1 | -1): void {
    const left = (tenants.get(tenant) ?? 0) + by
    if (left === 0) tenants.delete(tenant)
    else tenants.set(tenant, left)
  }

  function put(notifications: readonly Notification[]): void {
    for (const each of notifications) count(each, 1)
    const last = waiting.at(-1)
    const isBehind = last === undefined || notifications.every(({ id }) => id > last.id)
    waiting = waiting.concat(notifications)
    if (!isBehind || notifications.length > 1) waiting.sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Decides one; returns it as it waits on where the server did not answer. It counts as waiting until then. */
  async function decideOne(notification: Notification): Promise<Notification | undefined> {
    const left = await tryOne(notification)
    count(notification, -1)
    return left
  }

  async function tryOne(notification: Notification): Promise<Notification | undefined> {
    try {
      await decide(notification)
    } catch (error) {
      if (!isStateAway(error)) {
        onError(`decide ${notification.id}`, error)
        retryLater(notification, error)
        return undefined
      }
      const live = ledger.live(notification.id)
      // A concurrent change has moved it on.
      if (live !== undefined && revisionOf(live.notification) > revisionOf(notification)) return undefined
      const kept = { ...notification }
      ledger.hold(kept)
      return kept
    }
    return undefined
  }

  /** Takes the next ones that are still to be decided; those that have expired go to the scheduler. */
  function take(max: number): readonly Notification[] {
    const now = clock.now()
    const taken: Notification[] = []
    const left: Notification[] = []
    for (const each of waiting) {
      const { expiresAt } = each
      const isOver = expiresAt !== undefined && expiresAt <= now
      if (!isOver && taken.length >= max) left.push(each)
      else if (!isOver && ledger.isCurrent(each)) taken.push(each)
      else {
        count(each, -1)
        if (isOver && ledger.isCurrent(each)) scheduler.postpone(each, expiresAt)
      }
    }
    waiting = left
    return taken
  }

  async function work(): Promise<void> {
    for (let together = 1; waiting.length > 0 && !isStopped; ) {
      const decided: readonly (Notification | undefined)[] = await Promise.all(take(together).map(decideOne))
      const back: readonly Notification[] = decided.filter((each) => each !== undefined)
      together = back.length > 0 ? 1 : Math.min(togetherMax, 2 * together)
      if (back.length === 0) continue
      put(back)
      await sleep(retryMs)
    }
  }

  return {
    add(notifications) {
      if (notifications.length === 0 || isStopped) return
      put(notifications)
      working ??= work().finally(() => {
        working = undefined
      })
    },
    hasOf: (tenant) => tenants.has(tenant),
    async stop() {
      isStopped = true
      wakeAll()
      await working
    },
  }
}

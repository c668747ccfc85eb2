/**
 * The one way to write. Every change of state in the gateway passes through `commit`: it reaches the store, then
 * the counts, then the listeners (console, callbacks, metrics). The ledger also knows what this process keeps in
 * memory and in which version, so that a notification that was cancelled or decided anew while it stood in a queue
 * is recognised as stale when its turn comes.
 */

import { boundFor, boundOf } from '../bounds.ts'
import type { Happening, Ledger, Live, Room } from '../doors.ts'
import { SluiceError } from '../errors.ts'
import type { Notification, Status, TimelineEvent } from '../model.ts'
import { pendingOf, statuses } from '../model.ts'
import type { Change, Clock, Store } from '../ports.ts'

export interface TenantBounds {
  /** Queued, delayed by a tenant or module limit, dead letters, and what jobs still have to accept, at most. */
  readonly queueMax: number
  /** Scheduled, collecting, or delayed by a recipient's limit, at most. */
  readonly waitingMax: number
}

export interface LedgerOptions {
  readonly store: Store
  readonly clock: Clock
  readonly boundsFor: (tenant: string) => TenantBounds
  /** Begins to time a commit; what it returns ends that. */
  readonly timeCommit?: () => () => void
}

interface Account {
  readonly counts: Record<Status, number>
  queue: number
  waiting: number
}

interface Entry {
  notification: Notification
  status: Status
  events: TimelineEvent[]
}

const noCounts = (): Record<Status, number> =>
  Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>

/** How long a client whose tenant's queue is full is asked to stay away. */
const fullRetryAfterMs = 5_000

export async function createLedger(options: LedgerOptions): Promise<Ledger> {
  const { store, clock, boundsFor } = options
  const accounts = new Map<string, Account>()
  const total = noCounts()
  let pruned = 0
  const held = new Map<string, Entry>()
  const listeners = new Set<(happening: Happening) => void>()

  const account = (tenant: string): Account => {
    let found = accounts.get(tenant)
    if (found === undefined) {
      found = { counts: noCounts(), queue: 0, waiting: 0 }
      accounts.set(tenant, found)
    }
    return found
  }

  for (const tally of await store.tallies()) {
    const of = account(tally.tenant)
    of.counts[tally.status] += tally.count
    total[tally.status] += tally.count
    if (tally.unserved === true) continue
    const bound = boundOf(tally.status, tally.platformDelayed ? 'tenant_limit' : undefined)
    if (bound !== undefined) of[bound] += tally.count
  }

  // Whom a job still has to accept waits in the queue of its tenant.
  for (const job of await store.runningJobs()) account(job.tenant).queue += pendingOf(job)

  function count(notification: Notification, by: 1 | -1): void {
    const of = account(notification.tenant)
    of.counts[notification.status] += by
    total[notification.status] += by
    const bound = boundFor(notification)
    if (bound !== undefined) of[bound] += by
  }

  function publish(notification: Notification, events: readonly TimelineEvent[]): void {
    for (const listener of listeners) listener({ notification, events })
  }

  function record(change: Change): void {
    for (const notification of change.accept ?? []) {
      count(notification, 1)
      if (listeners.size > 0) publish(notification, notification.timeline)
    }
    for (const move of change.moves ?? []) {
      count(move.before, -1)
      count(move.after, 1)
      held.delete(move.after.id)
      if (listeners.size > 0) publish(move.after, move.events)
    }
    for (const write of change.jobs ?? []) {
      const job = write.kind === 'open' ? write.job : write.after
      account(job.tenant).queue += pendingOf(job) - (write.kind === 'open' ? 0 : pendingOf(write.before))
    }
  }

  return {
    async commit(change) {
      const onCommitted = options.timeCommit?.()
      const result = await store.commit(change)
      onCommitted?.()
      if (result.applied) record(change)
      return result
    },

    hold(notification) {
      held.set(notification.id, { notification, status: notification.status, events: [] })
    },

    release(notification) {
      if (held.get(notification.id)?.notification === notification) held.delete(notification.id)
    },

    isCurrent(notification) {
      return held.get(notification.id)?.notification === notification
    },

    mark(notification, status) {
      const entry = held.get(notification.id)
      if (entry?.notification !== notification) return false
      if (entry.status !== status) {
        entry.status = status
        entry.events.push({ at: clock.now(), status })
      }
      return true
    },

    live(id): Live | undefined {
      return held.get(id)
    },

    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },

    counts(tenant) {
      return tenant === undefined ? total : (accounts.get(tenant)?.counts ?? noCounts())
    },

    claimRoom(tenant, room: Room) {
      const of = account(tenant)
      const { queueMax, waitingMax } = boundsFor(tenant)
      const queueFull = room.queue > 0 && of.queue + room.queue > queueMax
      // A queue of fewer than ten has a place on top, too.
      const criticalMax = queueMax + Math.ceil(queueMax / 10)
      const criticalFull = room.critical > 0 && of.queue + room.queue + room.critical > criticalMax
      const waitingFull = room.waiting > 0 && of.waiting + room.waiting > waitingMax
      if (queueFull || criticalFull || waitingFull) {
        const [name, held, max] = waitingFull
          ? ['waiting', of.waiting, waitingMax]
          : ['queued', of.queue, queueMax]
        throw new SluiceError(
          'QUEUE_FULL',
          `Tenant ${tenant} has ${held} of at most ${max} notifications ${name}. Nothing was accepted; try again later.`,
          { retryAfterMs: fullRetryAfterMs },
        )
      }
      const queued = room.queue + room.critical
      of.queue += queued
      of.waiting += room.waiting
      let given = false
      return () => {
        if (given) return
        given = true
        of.queue -= queued
        of.waiting -= room.waiting
      }
    },

    async prune(before) {
      const { rows, tallies } = await store.prune(before)
      for (const { tenant, status, count } of tallies) {
        account(tenant).counts[status] -= count
        total[status] -= count
        pruned += count
      }
      return rows
    },

    pruned: () => pruned,

    occupancy(tenant) {
      const { queue, waiting } = account(tenant)
      return { queue, waiting }
    },
  }
}

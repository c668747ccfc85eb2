/**
 * The single path for writes. Every change of state passes through `commit`: it reaches the store, then the counts,
 * then the listeners (console, callbacks, metrics). The ledger also knows which notifications this process keeps in
 * memory and in which version, so that one that was cancelled or decided anew while it was queued is recognised as
 * stale when its turn comes.
 */

import { SluiceError } from '../errors.ts'
import { type Notification, type Status, statuses, type TimelineEvent } from '../model.ts'
import type { Occupancy, RoomState, TenantBounds } from '../ports/tenants.ts'
import type { Change, Clock, CommitResult, Store } from '../ports.ts'
import type { Happening, Ledger, Live } from '../stages.ts'
import type { Backlog } from './backlog.ts'
import { ConcurrentMoves } from './concurrent-moves.ts'
import { createLostAnswers } from './lost-answers.ts'
import { Occupancies } from './occupancy.ts'
import { createSendRights } from './send-rights.ts'

export interface LedgerOptions {
  readonly store: Store
  readonly clock: Clock
  /** The room of the tenants; it has counted nothing yet. */
  readonly room: RoomState
  readonly boundsFor: (tenant: string) => TenantBounds
  /** Starts timing a commit of so many notifications; the returned function stops it. */
  readonly timeCommit?: (writes: number) => (error?: unknown) => void
  /** Called when a tenant has no room left in one of its bounds. */
  readonly onFull?: (tenant: string, bound: keyof Occupancy) => void
  /** Counts what waits. @defaultValue nothing is counted */
  readonly backlog?: Pick<Backlog, 'count'>
}

interface Entry {
  notification: Notification
  status: Status
  events: TimelineEvent[]
}

export const noCounts = (): Record<Status, number> =>
  Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>

export async function createLedger(options: LedgerOptions): Promise<Ledger> {
  const { store, clock, backlog } = options
  const { room, boundsFor, onFull } = options
  const occupancies = new Occupancies({ room, boundsFor, onFull })
  const total = noCounts()
  let pruned = 0
  let oldest: number | undefined
  const held = new Map<string, Entry>()
  /** Held notifications by tenant; a tenant with none has no entry. */
  const holders = new Map<string, number>()
  const listeners = new Set<(happening: Happening) => void>()
  const concurrent = new ConcurrentMoves()
  const lookUp = createLostAnswers({ store, clock, concurrent })

  const tallies = await store.tallies()
  for (const tally of tallies) total[tally.status] += tally.count
  await occupancies.restore(store, tallies)

  function count(notification: Notification, by: 1 | -1): void {
    total[notification.status] += by
    backlog?.count(notification, by)
    occupancies.count(notification, by)
  }

  function drop({ id, tenant }: Pick<Notification, 'id' | 'tenant'>): void {
    if (held.delete(id)) countHeld(tenant, -1)
  }

  function countHeld(tenant: string, by: 1 | -1): void {
    const count = (holders.get(tenant) ?? 0) + by
    if (count === 0) holders.delete(tenant)
    else holders.set(tenant, count)
  }

  function publish(happening: Happening): void {
    for (const listener of listeners) listener(happening)
  }

  function record(change: Change): void {
    for (const notification of change.accept ?? []) {
      count(notification, 1)
      concurrent.takesUp(notification, held.get(notification.id)?.notification)
      if (listeners.size > 0) publish({ notification, events: notification.timeline })
    }
    for (const move of change.moves ?? []) {
      // `after` before `before`, so that a content to which both refer is not released in between.
      count(move.after, 1)
      count(move.before, -1)
      if (!concurrent.takesUp(move.after, held.get(move.after.id)?.notification)) drop(move.after)
      concurrent.moved(move.before)
      if (listeners.size > 0) publish({ notification: move.after, before: move.before, events: move.events })
    }
    for (const write of change.jobs ?? []) {
      if (write.kind === 'open') occupancies.countJob(write.job, 1)
      else {
        occupancies.countJob(write.after, 1)
        occupancies.countJob(write.before, -1)
      }
    }
  }

  return {
    async commit(change) {
      const { accept = [], moves = [] } = change
      const onCommitted = options.timeCommit?.(accept.length + moves.length)
      let result: CommitResult
      const underWay = concurrent.begin(moves)
      try {
        result = await store.commit(change)
      } catch (error) {
        const isUncertain = error instanceof SluiceError && error.isUncertain
        const found = isUncertain ? await lookUp(change, underWay) : undefined
        if (found === undefined) {
          onCommitted?.(error)
          throw error
        }
        result = found
      } finally {
        concurrent.end(underWay)
      }
      onCommitted?.()
      if (result.applied) record(change)
      return result
    },

    watch: (id) => concurrent.watch(id),

    hold(notification) {
      // The writer that read it before this process knew of it has it in hand: it brings it back if its change fails.
      if (concurrent.replaces(notification) || concurrent.isTakenUp(notification)) return
      if (!held.has(notification.id)) countHeld(notification.tenant, 1)
      held.set(notification.id, { notification, status: notification.status, events: [] })
    },

    release(notification) {
      if (held.get(notification.id)?.notification === notification) drop(notification)
    },

    isCurrent(notification) {
      return held.get(notification.id)?.notification === notification
    },

    begin: createSendRights({ store, clock, held, isReplaced: (of) => concurrent.replaces(of), drop }),

    mark(notification, status) {
      const entry = held.get(notification.id)
      if (entry?.notification !== notification) return false
      entry.status = status
      // A right to send that was given back, and a call that was not written, leave no trace in the timeline.
      if (status === 'queued' && entry.events.at(-1)?.status === 'sending') entry.events.pop()
      const last = entry.events.at(-1)?.status ?? notification.status
      if (last !== status) entry.events.push({ at: clock.now(), status })
      return true
    },

    live: (id): Live | undefined => held.get(id),

    isSending: () => [...held.values()].some(({ status }) => status === 'sending'),

    held: () => holders,

    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },

    counts: () => total,

    takeRoom: (tenant, room) => occupancies.takeRoom(tenant, room),

    async prune(before) {
      const { rows, tallies, oldestAt } = await store.prune(before)
      oldest = oldestAt
      for (const { status, count } of tallies) {
        total[status] -= count
        pruned += count
      }
      return rows
    },

    pruned: () => pruned,
    oldestAt: () => oldest,
    occupancy: (tenant) => occupancies.of(tenant),
  }
}

/**
 * The single path for writes. Every change of state passes through `commit`: it reaches the store, then the counts,
 * then the listeners (console, callbacks, metrics). The ledger also knows which notifications this process keeps in
 * memory and in which version, so that one that was cancelled or decided anew while it was queued is recognised as
 * stale when its turn comes.
 */

import { boundFor, boundOf } from '../bounds.ts'
import { SluiceError } from '../errors.ts'
import type { ContentRef, Job, Notification, Status, TimelineEvent } from '../model.ts'
import { type Move, pendingBytesOf, pendingOf, revisionOf, statuses } from '../model.ts'
import type { Change, Clock, CommitResult, Store } from '../ports.ts'
import type { Begun, Happening, Ledger, Live, Room } from '../stages.ts'
import type { Backlog } from './backlog.ts'

export interface TenantBounds {
  /**
   * Maximum of queued notifications, those delayed by a tenant or module limit, dead letters, and what jobs still
   * accept.
   */
  readonly queueMax: number
  /** Maximum of notifications that are scheduled, in a digest, or delayed by a recipient limit. */
  readonly waitingMax: number
  /** Maximum bytes of content that waits, as it is stored. */
  readonly bytesMax: number
}

export interface LedgerOptions {
  readonly store: Store
  readonly clock: Clock
  readonly boundsFor: (tenant: string) => TenantBounds
  /** Starts timing a commit of so many notifications; the returned function stops it. */
  readonly timeCommit?: (writes: number) => (error?: unknown) => void
  /** Called when a tenant has no room left in one of its bounds. */
  readonly onFull?: (tenant: string, bound: keyof Occupancy) => void
  /** Counts what waits. @defaultValue nothing is counted */
  readonly backlog?: Pick<Backlog, 'count'>
}

/** The use of each bound of one tenant. */
type Occupancy = ReturnType<Ledger['occupancy']>

/** Counts what waits of one tenant; a tenant without anything waiting has no entry. */
interface Account {
  queue: number
  waiting: number
  bytes: number
}

interface Entry {
  notification: Notification
  status: Status
  events: TimelineEvent[]
}

const noCounts = (): Record<Status, number> =>
  Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>

const nothing: Readonly<Account> = { queue: 0, waiting: 0, bytes: 0 }

/** No other process can take a notification of this one, so its rights do not end. */
const allBegun: Begun = { refused: new Set(), until: Number.POSITIVE_INFINITY }

/** Retry-After for a client whose tenant's queue is full, ms. */
const fullRetryAfterMs = 5_000

export async function createLedger(options: LedgerOptions): Promise<Ledger> {
  const { store, clock, boundsFor } = options
  const accounts = new Map<string, Account>()
  /** Waiting notifications that refer to a content stored apart, by content id. */
  const references = new Map<string, number>()
  const total = noCounts()
  let pruned = 0
  const held = new Map<string, Entry>()
  /** Held notifications by tenant; a tenant with none has no entry. */
  const holders = new Map<string, number>()
  const listeners = new Set<(happening: Happening) => void>()
  /** Versions that a change under way replaces, and by how many. As many as there are moves under way. */
  const replacing = new Map<string, number>()

  /** Ids whose record is being read, and the readers that a move of theirs concerns. */
  const readers = new Map<string, Set<{ hasMoved: boolean }>>()

  const versionOf = (of: Notification): string => `${of.id} ${revisionOf(of)}`

  function replace(moves: readonly Move[], by: 1 | -1): void {
    for (const { before } of moves) {
      const version = versionOf(before)
      const count = (replacing.get(version) ?? 0) + by
      if (count === 0) replacing.delete(version)
      else replacing.set(version, count)
    }
  }

  function occupy(tenant: string, by: Partial<Account>): void {
    const { queue = 0, waiting = 0, bytes = 0 } = by
    const of = accounts.get(tenant)
    if (of === undefined) {
      if (queue !== 0 || waiting !== 0 || bytes !== 0) accounts.set(tenant, { queue, waiting, bytes })
      return
    }
    of.queue += queue
    of.waiting += waiting
    of.bytes += bytes
    if (of.queue === 0 && of.waiting === 0 && of.bytes === 0) accounts.delete(tenant)
  }

  /** Counts a content once, as long as any waiting notification refers to it. */
  function refer(tenant: string, { id, bytes }: ContentRef, by: number): void {
    const before = references.get(id) ?? 0
    const after = before + by
    if (after === 0) references.delete(id)
    else references.set(id, after)
    if (before === 0) occupy(tenant, { bytes })
    if (after === 0) occupy(tenant, { bytes: -bytes })
  }

  for (const tally of await store.tallies()) {
    total[tally.status] += tally.count
    if (tally.unserved === true) continue
    const bound = boundOf(tally.status, tally.throttled ? 'tenant_limit' : undefined)
    if (bound !== undefined) occupy(tally.tenant, { [bound]: tally.count, bytes: tally.bytes })
  }
  for (const content of await store.waitingContents()) {
    references.set(content.id, content.waiting)
    occupy(content.tenant, { bytes: content.bytes })
  }

  // Recipients that a job has yet to accept count in the queue bound of its tenant.
  for (const job of await store.runningJobs())
    occupy(job.tenant, { queue: pendingOf(job), bytes: pendingBytesOf(job) })

  function count(notification: Notification, by: 1 | -1): void {
    const { tenant, status, bytes = 0, shared } = notification
    total[status] += by
    options.backlog?.count(notification, by)
    const bound = boundFor(notification)
    if (bound === undefined) return
    occupy(tenant, { [bound]: by, bytes: by * bytes })
    if (shared !== undefined) refer(tenant, shared, by)
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
      if (listeners.size > 0) publish({ notification, events: notification.timeline })
    }
    for (const move of change.moves ?? []) {
      // `after` before `before`, so that a content to which both refer is not released in between.
      count(move.after, 1)
      count(move.before, -1)
      drop(move.after)
      for (const reader of readers.get(move.after.id) ?? []) reader.hasMoved = true
      if (listeners.size > 0) publish({ notification: move.after, before: move.before, events: move.events })
    }
    for (const write of change.jobs ?? []) {
      if (write.kind === 'open') countJob(write.job, 1)
      else {
        countJob(write.after, 1)
        countJob(write.before, -1)
      }
    }
  }

  function countJob(job: Job, by: 1 | -1): void {
    if (job.status !== 'running') return
    occupy(job.tenant, { queue: by * pendingOf(job), bytes: by * pendingBytesOf(job) })
    if (job.shared !== undefined) refer(job.tenant, job.shared, by)
  }

  return {
    async commit(change) {
      const { accept = [], moves = [] } = change
      const onCommitted = options.timeCommit?.(accept.length + moves.length)
      let result: CommitResult
      replace(moves, 1)
      try {
        result = await store.commit(change)
      } catch (error) {
        onCommitted?.(error)
        throw error
      } finally {
        replace(moves, -1)
      }
      onCommitted?.()
      if (result.applied) record(change)
      return result
    },

    watch(id) {
      const reader = { hasMoved: false }
      const others = readers.get(id)
      if (others === undefined) readers.set(id, new Set([reader]))
      else others.add(reader)
      return () => {
        const all = readers.get(id)
        if (all?.delete(reader) === true && all.size === 0) readers.delete(id)
        return reader.hasMoved
      }
    },

    hold(notification) {
      // The writer that read it before this process knew of it has it in hand: it brings it back if its change fails.
      if (replacing.size > 0 && replacing.has(versionOf(notification))) return
      if (!held.has(notification.id)) countHeld(notification.tenant, 1)
      held.set(notification.id, { notification, status: notification.status, events: [] })
    },

    release(notification) {
      if (held.get(notification.id)?.notification === notification) drop(notification)
    },

    isCurrent(notification) {
      return held.get(notification.id)?.notification === notification
    },

    begin(of) {
      let refused: Set<string> | undefined
      for (const { notification } of of) {
        const entry = held.get(notification.id)
        if (entry?.notification === notification) entry.status = 'sending'
        else {
          refused ??= new Set()
          refused.add(notification.id)
        }
      }
      return refused === undefined ? allBegun : { refused, until: Number.POSITIVE_INFINITY }
    },

    mark(notification, status) {
      const entry = held.get(notification.id)
      if (entry?.notification !== notification) return false
      entry.status = status
      // A right to send that was given back leaves no trace in the timeline.
      const last = entry.events.at(-1)?.status ?? notification.status
      if (last !== status) entry.events.push({ at: clock.now(), status })
      return true
    },

    live(id): Live | undefined {
      return held.get(id)
    },

    held: () => holders,

    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },

    counts: () => total,

    takeRoom(tenant, room: Room) {
      const of = accounts.get(tenant) ?? nothing
      const full = fullBound(of, room, boundsFor(tenant))
      if (full !== undefined) {
        options.onFull?.(tenant, full.bound)
        throw new SluiceError(
          'QUEUE_FULL',
          `Tenant ${tenant} has ${full.use}. Nothing was accepted; try again later.`,
          { retryAfterMs: fullRetryAfterMs },
        )
      }
      const { waiting, bytes = 0 } = room
      const queue = room.queue + room.critical
      occupy(tenant, { queue, waiting, bytes })
      let given = false
      return () => {
        if (given) return
        given = true
        occupy(tenant, { queue: -queue, waiting: -waiting, bytes: -bytes })
      }
    },

    async prune(before) {
      const { rows, tallies } = await store.prune(before)
      for (const { status, count } of tallies) {
        total[status] -= count
        pruned += count
      }
      return rows
    },

    pruned: () => pruned,

    occupancy(tenant) {
      const { queue, waiting, bytes } = accounts.get(tenant) ?? nothing
      return { queue, waiting, bytes }
    },
  }
}

/** Describes the bound that has no room left, and its present use. */
function fullBound(
  of: Account,
  room: Room,
  bounds: TenantBounds,
): { readonly bound: keyof Occupancy; readonly use: string } | undefined {
  const { queue, critical, waiting, bytes = 0 } = room
  const { queueMax, waitingMax, bytesMax } = bounds
  if (waiting > 0 && of.waiting + waiting > waitingMax)
    return { bound: 'waiting', use: `${of.waiting} of at most ${waitingMax} notifications waiting` }
  // Critical notifications have a tenth on top; a queue bound below ten has one place on top, too.
  const queueFull = queue > 0 && of.queue + queue > queueMax
  if (queueFull || (critical > 0 && of.queue + queue + critical > queueMax + Math.ceil(queueMax / 10)))
    return { bound: 'queue', use: `${of.queue} of at most ${queueMax} notifications queued` }
  const isCritical = critical > 0 && queue + waiting === 0
  if (bytes > 0 && of.bytes + bytes > bytesMax * (isCritical ? 1.1 : 1))
    return {
      bound: 'bytes',
      use: `${of.bytes} of at most ${bytesMax} bytes of content waiting, and this has ${bytes}`,
    }
  return undefined
}

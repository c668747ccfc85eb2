/**
 * What is to happen later. The store holds everything that waits, in the order in which it is due; the agenda keeps
 * in memory only what is due within the next seconds, so that a million waiting notifications cost disk and not
 * memory, and a release needs no look at the disk at its instant. What is due goes to the queue; digests close.
 */

import type { Agenda, Gate, Ledger } from '../doors.ts'
import { Heap } from '../heap.ts'
import type { Digest, Notification } from '../model.ts'
import { advance } from '../model.ts'
import type { Clock, Queue, Store } from '../ports.ts'

export interface AgendaOptions {
  readonly store: Store
  readonly ledger: Ledger
  readonly queue: Queue
  readonly clock: Clock
  /** Decides what is due but undecided, and closes digests. */
  readonly gate: () => Pick<Gate, 'resume' | 'closeDigest'>
  /** What expires gives its places back. */
  readonly giveBack: (held: Notification, ended: Notification['status']) => Promise<void>
  readonly onTrouble?: (what: string, error: unknown) => void
  /** How far ahead what is due is kept in memory. @defaultValue 2_000 ms */
  readonly lookaheadMs?: number
  /** How many are kept in memory at most; beyond it they stay in the store until there is room. @defaultValue 20_000 */
  readonly heldMax?: number
}

export interface Schedule extends Agenda {
  start(): Promise<void>
  stop(): Promise<void>
  /** How many notifications are kept in memory until they are due. */
  size(): number
}

/** Rows read at once: a page costs some 5 ms of the event loop. */
const pageMax = 500
/** The store is looked at this often although nothing is known to be due: another process may have died. */
const recheckMs = 60_000
/** Ends are looked through for what has left when there are this many, and then each time they have doubled. */
const endsMin = 1_024
/** After a failed look at the store. */
const againMs = 500

export function createSchedule(options: AgendaOptions): Schedule {
  const { store, ledger, queue, clock } = options
  const lookaheadMs = options.lookaheadMs ?? 2_000
  const heldMax = options.heldMax ?? 20_000
  const heap = new Heap<Notification>()
  /** What stands in the queue, by its end; what has left meanwhile is dropped when there is too much of it. */
  let ends = new Heap<Notification>()
  let endsMax = endsMin
  let running = false
  let disarm: (() => void) | undefined
  let armedFor = Number.POSITIVE_INFINITY
  /** When the store is to be looked at again. */
  let claimAt = Number.NEGATIVE_INFINITY
  let digestAt = Number.NEGATIVE_INFINITY
  const working = new Set<Promise<void>>()
  let claiming = false
  let closing = false

  function track(what: string, work: Promise<void>): void {
    const tracked = work
      .catch((error) => options.onTrouble?.(what, error))
      .finally(() => working.delete(tracked))
    working.add(tracked)
  }

  function arm(): void {
    if (!running) return
    const never = Number.POSITIVE_INFINITY
    const next = Math.min(
      heap.leastKey ?? never,
      ends.leastKey ?? never,
      claiming ? never : claimAt,
      closing ? never : digestAt,
    )
    if (next === armedFor) return
    disarm?.()
    disarm = undefined
    armedFor = next
    if (next === Number.POSITIVE_INFINITY) return
    disarm = clock.at(next, () => {
      armedFor = Number.POSITIVE_INFINITY
      wake()
    })
  }

  function wake(): void {
    const now = clock.now()
    releaseDue(now)
    endOverdue(now)
    if (!claiming && claimAt <= now) track('claim what is due', claim())
    if (!closing && digestAt <= now) track('close digests', closeDue())
    arm()
  }

  function releaseDue(now: number): void {
    const ready: Notification[] = []
    const undecided: Notification[] = []
    while (heap.leastKey !== undefined && heap.leastKey <= now) {
      const notification = heap.pop()!
      if (!ledger.isCurrent(notification)) continue
      if (notification.expiresAt !== undefined && notification.expiresAt <= now)
        track('expire', expire(notification, now))
      else if (notification.undecided === true) undecided.push(notification)
      else ready.push(notification)
    }
    if (ready.length > 0) enqueue(ready)
    if (undecided.length > 0) track('decide what is due', options.gate().resume(undecided))
  }

  function enqueue(notifications: readonly Notification[]): void {
    for (const notification of notifications) ledger.mark(notification, 'queued')
    push(notifications)
  }

  function push(notifications: readonly Notification[]): void {
    for (const notification of notifications) watchEnd(notification)
    track('queue', queue.push(notifications))
  }

  /** Whatever keeps it in the queue, it ends in time. */
  function watchEnd(notification: Notification): void {
    if (notification.expiresAt === undefined) return
    ends.push(notification.expiresAt, notification)
    if (ends.size > endsMax) forgetEnds()
  }

  function forgetEnds(): void {
    const kept = new Heap<Notification>()
    for (let end = ends.pop(); end !== undefined; end = ends.pop()) {
      if (ledger.isCurrent(end)) kept.push(end.expiresAt!, end)
    }
    ends = kept
    endsMax = Math.max(endsMin, 2 * kept.size)
  }

  function endOverdue(now: number): void {
    while (ends.leastKey !== undefined && ends.leastKey <= now) {
      const notification = ends.pop()!
      if (!ledger.isCurrent(notification) || ledger.live(notification.id)?.status === 'sending') continue
      track('expire', expire(notification, now))
    }
  }

  async function expire(notification: Notification, now: number): Promise<void> {
    const path = ledger.live(notification.id)?.events ?? []
    // From here on it is not sent, while its end is on its way to the record.
    ledger.release(notification)
    const move = advance(notification, [...path, { at: now, status: 'expired' }])
    try {
      if ((await ledger.commit({ moves: [move] })).applied) await options.giveBack(notification, 'expired')
    } catch (error) {
      ledger.hold(notification)
      heap.push(now + againMs, notification)
      throw error
    }
  }

  /** Reads what comes due next. A full page is followed by another at once, until memory has enough. */
  async function claim(): Promise<void> {
    claiming = true
    try {
      for (;;) {
        if (heap.size >= heldMax || queue.size() >= heldMax) {
          claimAt = clock.now() + againMs
          return
        }
        const until = clock.now() + lookaheadMs
        const page = await store.claimDue(until, pageMax)
        keep(page.filter((notification) => ledger.live(notification.id) === undefined))
        if (page.length < pageMax) {
          claimAt = await nextClaim(until)
          return
        }
      }
    } catch (error) {
      claimAt = clock.now() + againMs
      throw error
    } finally {
      claiming = false
      wake()
    }
  }

  /** Half a lookahead before the next is due, and once a minute in any case. */
  async function nextClaim(claimed: number): Promise<number> {
    const next = (await store.nextDueAt()) ?? Number.POSITIVE_INFINITY
    const earliest = claimed - lookaheadMs / 2
    return Math.min(Math.max(next - lookaheadMs, earliest), Math.max(earliest, clock.now() + recheckMs))
  }

  function keep(notifications: readonly Notification[]): void {
    for (const notification of notifications) {
      ledger.hold(notification)
      heap.push(notification.dueAt, notification)
    }
  }

  /** Digests of one instant are closed together, so that their commits are shared. */
  async function closeDue(): Promise<void> {
    closing = true
    digestAt = Number.POSITIVE_INFINITY
    try {
      for (;;) {
        const due = await store.dueDigests(clock.now(), pageMax)
        await Promise.all(due.map(closeOne))
        if (due.length < pageMax) break
      }
      digestAt = Math.min(digestAt, (await store.nextDigestAt()) ?? Number.POSITIVE_INFINITY)
    } catch (error) {
      digestAt = clock.now() + againMs
      throw error
    } finally {
      closing = false
      arm()
    }
  }

  async function closeOne(digest: Digest): Promise<void> {
    await options.gate().closeDigest(digest)
  }

  return {
    place(notifications) {
      const now = clock.now()
      const ready: Notification[] = []
      for (const notification of notifications) {
        switch (notification.status) {
          case 'queued':
          case 'scheduled':
          case 'dead':
            break
          default:
            continue
        }
        if (notification.dueAt <= now && notification.status === 'queued' && queue.size() < heldMax) {
          ledger.hold(notification)
          ready.push(notification)
        } else if (notification.dueAt <= store.claimedUntil()) {
          keep([notification])
        } else {
          claimAt = Math.min(claimAt, Math.max(now, notification.dueAt - lookaheadMs))
        }
      }
      if (ready.length > 0) push(ready)
      arm()
    },
    placeFirst(notification) {
      ledger.hold(notification)
      watchEnd(notification)
      queue.giveBack([notification])
      arm()
    },
    postpone(notification, at) {
      heap.push(at, notification)
      arm()
    },
    noteDigest(closesAt) {
      if (closesAt < digestAt) {
        digestAt = closesAt
        arm()
      }
    },
    async start() {
      running = true
      wake()
      await Promise.all(working)
    },
    async stop() {
      running = false
      disarm?.()
      while (working.size > 0) await Promise.all(working)
    },
    size() {
      return heap.size
    },
  }
}

/**
 * Brings back what became a dead letter for want of capacity, when there is capacity: most urgent and oldest first,
 * and not all at once. It begins with a tenth of what the pools carry and doubles each second, and only while next to
 * nothing else waits, so that what is new is not held up by what is old. Critical ones wait for nobody else: they stand
 * before all others in the queue as well.
 */
import { isUnserved } from '../bounds.ts'
import { advance, type DeadCause, type Move, type Notification, type Priority, priorities } from '../model.ts'
import type { Clock, Queue, Store } from '../ports.ts'
import type { Ledger, Scheduler } from '../stages.ts'
import type { Route } from './pools/route.ts'

export interface AutomaticRedriveOptions {
  readonly route: Route
  readonly store: Pick<Store, 'deadLetters'>
  readonly ledger: Pick<Ledger, 'commit' | 'counts'>
  readonly scheduler: Pick<Scheduler, 'place'>
  readonly queue: Pick<Queue, 'size' | 'critical'>
  readonly clock: Clock
  readonly onError?: ((what: string, error: unknown) => void) | undefined
}

export interface AutomaticRedrive {
  /** One more is a dead letter. */
  note(priority: Priority): void
  /** Something may be free. */
  wake(): void
  /** Accounts went out or came back: what it waits for may have changed. */
  changed(): void
  stop(): Promise<void>
}

/** Those that are nobody's fault but want of capacity. */
export const capacityCauses: readonly DeadCause[] = ['pool_blocked', 'shed', 'circuit_open']

const tickMs = 100
const pageMax = 500
/** Where no account has a limit, calls per second. */
const unlimitedPerSecond = 1_000
const leastPerSecond = 10
/** Who finds no account free for longer begins gently again: what is new needs them all. */
const busyMs = 1_000

/** How many may come back in a tick, so long after they began to. */
export function allowanceOf(sinceMs: number, ratePerSecond: number): number {
  const first = Math.max(leastPerSecond, ratePerSecond / 10)
  const perSecond = Math.min(ratePerSecond, first * 2 ** Math.min(30, sinceMs / 1_000))
  return Math.max(1, Math.floor((perSecond * tickMs) / 1_000))
}

export function createAutomaticRedrive(options: AutomaticRedriveOptions): AutomaticRedrive {
  const { route, store, ledger, scheduler, queue, clock } = options
  /** Priorities that may have dead letters. After a start all of them, unless there are none: asking starts a thread. */
  const perhaps = new Set<Priority>(ledger.counts().dead === 0 ? [] : priorities)
  const rate = route.ratePerSecond ?? unlimitedPerSecond
  /** Up to where those were read whose repetition the budget did not allow; the others are behind them. */
  const heldUntil = new Map<Priority, string>()
  /** Of these all pages were empty since the first. */
  const empty = new Set<Priority>()
  /** Of those that are held, how many the next page is to pass besides the ones that may return. */
  const passing = new Map<Priority, number>()
  let beganAt: number | undefined
  let freeSeenAt = Number.NEGATIVE_INFINITY
  let disarm: (() => void) | undefined
  let working: Promise<void> | undefined
  let stopped = false

  function arm(at: number): void {
    if (stopped || disarm !== undefined || at === Number.POSITIVE_INFINITY) return
    disarm = clock.at(at, () => {
      disarm = undefined
      wake()
    })
  }

  function wake(): void {
    if (stopped || working !== undefined || disarm !== undefined || perhaps.size === 0) return
    const now = clock.now()
    const free = route.freeAt(now)
    const isFree = free !== undefined && free <= now
    const isUrgent = perhaps.has('critical') && !route.isEmpty(now)
    if (isFree) {
      // Accounts that are busy with what has just come back are no reason to begin anew.
      if (beganAt === undefined || now - freeSeenAt > busyMs) beganAt = now
      freeSeenAt = now
    }
    if (!isFree && !isUrgent) {
      if (free !== undefined) arm(free)
      return
    }
    // With all of them out there is room for a probe alone.
    const allowance = route.isEmpty(now) ? 1 : allowanceOf(now - (beganAt ?? now), rate)
    // More than may come back at once is new, and goes first.
    if (queue.size(route.channel) > allowance) beganAt = undefined
    const room = isFree ? Math.min(allowance - queue.size(route.channel), pageMax) : 0
    const critical = Math.min(allowance - queue.critical(route.channel), pageMax)
    if (room <= 0 && (critical <= 0 || !isUrgent)) {
      arm(now + tickMs)
      return
    }
    working = bringBack(critical, room)
      .catch((error) => options.onError?.('bring dead letters back', error))
      .finally(() => {
        working = undefined
        arm(clock.now() + tickMs)
      })
  }

  async function bringBack(critical: number, room: number): Promise<void> {
    let left = room
    for (const priority of priorities) {
      const may = priority === 'critical' ? critical : left
      if (may > 0) left -= await bringBackOf(priority, may)
    }
  }

  /** How many have returned. */
  async function bringBackOf(priority: Priority, max: number): Promise<number> {
    if (!perhaps.delete(priority)) return 0
    try {
      const cursor = heldUntil.get(priority)
      const page = await store.deadLetters({
        channel: route.channel,
        causes: capacityCauses,
        priority,
        limit: Math.min(pageMax, max + (passing.get(priority) ?? 0)),
        ...(cursor === undefined ? {} : { cursor }),
      })
      const now = clock.now()
      const may: Notification[] = []
      let held = 0
      for (const dead of page.items) {
        if (may.length === max) break
        if (dead.attempts > 0 && !route.mayRepeat(now)) held += 1
        else may.push(dead)
      }
      const returned = await Promise.all(may.map(returnOne))
      const isRead = may.length + held === page.items.length
      const isHeld = held > 0 && may.length === 0
      passing.set(priority, isHeld ? pageMax : isRead ? 0 : held)
      if (isRead && page.nextCursor === null) heldUntil.delete(priority)
      else if (isRead && (held > 0 || page.items.length === 0)) heldUntil.set(priority, page.nextCursor!)
      // A page may end early and empty: then the next one is looked at, and nothing is left where all were empty.
      if (page.items.length > 0) empty.delete(priority)
      else if (cursor === undefined) empty.add(priority)
      const isWhole = cursor === undefined || empty.has(priority)
      const isDone = isRead && page.nextCursor === null && held === 0 && isWhole
      if (!isDone || !returned.every(Boolean)) perhaps.add(priority)
      return returned.filter(Boolean).length
    } catch (error) {
      perhaps.add(priority)
      throw error
    }
  }

  /** False where the record went another way meanwhile: then it is looked whether it is dead again. */
  async function returnOne(dead: Notification): Promise<boolean> {
    const now = clock.now()
    const move = isUnserved(dead)
      ? againDecided(dead, now)
      : advance(dead, [{ at: now, status: 'queued' }], { dueAt: now })
    const { applied } = await ledger.commit({ moves: [move] })
    if (applied) {
      scheduler.place([move.after])
      // It was asked for when it came first.
      route.asked(clock.now(), -1)
    }
    return applied
  }

  /** It has held no place since no pool served it, and may have waited for its sendAt: its limits are asked anew. */
  function againDecided(dead: Notification, now: number): Move {
    const isItem = dead.digestId !== undefined || dead.undecided === true
    return advance(dead, [{ at: now, status: 'scheduled', reason: 'provider_capacity' }], {
      dueAt: Math.max(now, dead.sendAt ?? now),
      undecided: true,
      // What its limits had let wait is not dropped by them now.
      ...(isItem ? {} : { single: true }),
    })
  }

  return {
    note(priority) {
      perhaps.add(priority)
      empty.delete(priority)
      beganAt = undefined
    },
    wake,
    changed() {
      disarm?.()
      disarm = undefined
      wake()
    },
    async stop() {
      stopped = true
      disarm?.()
      await working
    },
  }
}

/**
 * Redrives dead letters that died for want of capacity once there is capacity, by priority and then age, and not all
 * at once. The pace begins at a tenth of what the pools carry and doubles each second, and only while next to nothing
 * else waits, so that new notifications are not delayed by old ones. Critical dead letters wait for no lower
 * priority: they are ahead of all others in the queue as well.
 */
import { isUnserved } from '../bounds.ts'
import { advance, type DeadCause, type Move, type Notification, type Priority, priorities } from '../model.ts'
import type { Members } from '../ports/fleet.ts'
import type { Clock, Queue, Store } from '../ports.ts'
import type { Ledger, Scheduler } from '../stages.ts'
import type { Route } from './pools/route.ts'

export interface AutomaticRedriveOptions {
  readonly route: Route
  readonly store: Pick<Store, 'deadLetters' | 'isVersioned'>
  readonly ledger: Pick<Ledger, 'commit' | 'counts'>
  readonly scheduler: Pick<Scheduler, 'place'>
  readonly queue: Pick<Queue, 'size' | 'critical'>
  /** One process of a fleet redrives the dead letters of a channel: the pace is that of the whole pool. */
  readonly members: Pick<Members, 'holds'>
  readonly clock: Clock
  readonly onError?: ((what: string, error: unknown) => void) | undefined
}

export interface AutomaticRedrive {
  /** Records one more dead letter of this priority. */
  note(priority: Priority): void
  /** Redrives if an account may be free. */
  wake(): void
  /** Called when accounts went out or came back: the instant waited for may have changed. */
  changed(): void
  stop(): Promise<void>
}

/** Causes of death that are due to missing capacity alone. */
const capacityCauses: readonly DeadCause[] = ['pool_blocked', 'shed', 'circuit_open']

const tickMs = 100
/** Interval at which a process looks again while another one redrives. */
const otherMs = 1_000
/** Interval at which dead letters are looked for that another process has buried, and did not redrive. */
const elsewhereMs = 30_000
const pageMax = 500
/** Assumed rate where no account has a limit, calls per second. */
const unlimitedPerSecond = 1_000
const leastPerSecond = 10
/** After this long without a free account, the pace begins again at a tenth: new notifications need all accounts. */
const busyMs = 1_000

/** Computes how many dead letters may return in a tick, this long after the redrive began. */
export function allowanceOf(sinceMs: number, ratePerSecond: number): number {
  const first = Math.max(leastPerSecond, ratePerSecond / 10)
  const perSecond = Math.min(ratePerSecond, first * 2 ** Math.min(30, sinceMs / 1_000))
  return Math.max(1, Math.floor((perSecond * tickMs) / 1_000))
}

export function createAutomaticRedrive(options: AutomaticRedriveOptions): AutomaticRedrive {
  const { route, store, ledger, scheduler, queue, members, clock } = options
  /**
   * Priorities that may have dead letters in the store. All of them at start unless the store has none, because the
   * first query starts a worker.
   */
  const maybeDead = new Set<Priority>(ledger.counts().dead === 0 ? [] : priorities)
  const rate = route.ratePerSecond ?? unlimitedPerSecond
  /** Read cursor by priority: dead letters before it were refused a retry by the budget; the others come after it. */
  const heldUntil = new Map<Priority, string>()
  /** Priorities for which every page since the first was empty. */
  const empty = new Set<Priority>()
  /** Dead letters without a retry budget that the next page skips, besides those that may return. */
  const passing = new Map<Priority, number>()
  let beganAt: number | undefined
  let freeSeenAt = Number.NEGATIVE_INFINITY
  let disarm: (() => void) | undefined
  /** False while it waits for the next tick, or for the role: then a change of an account changes nothing. */
  let waitsForAccount = false
  let disarmLook: (() => void) | undefined
  let working: Promise<void> | undefined
  let stopped = false

  function arm(at: number): void {
    if (stopped || disarm !== undefined || at === Number.POSITIVE_INFINITY) return
    disarm = clock.at(at, () => {
      disarm = undefined
      wake()
    })
  }

  /** Looks at times for what died elsewhere: this process was not told of it, and the other may not redrive it. */
  function lookElsewhere(): void {
    if (stopped || !store.isVersioned || disarmLook !== undefined) return
    disarmLook = clock.at(clock.now() + elsewhereMs, () => {
      disarmLook = undefined
      if (members.holds(`redrive:${route.channel}`))
        for (const priority of priorities) maybeDead.add(priority)
      wake()
    })
  }

  function wake(): void {
    lookElsewhere()
    if (stopped || working !== undefined || disarm !== undefined || maybeDead.size === 0) return
    const now = clock.now()
    waitsForAccount = false
    if (!members.holds(`redrive:${route.channel}`)) {
      beganAt = undefined
      arm(now + otherMs)
      return
    }
    const free = route.freeAt(now)
    const isFree = free !== undefined && free <= now
    const isUrgent = maybeDead.has('critical') && !route.isEmpty(now)
    if (isFree) {
      // Accounts that are busy with redriven notifications are no reason to reset the pace.
      if (beganAt === undefined || now - freeSeenAt > busyMs) beganAt = now
      freeSeenAt = now
    }
    if (!isFree && !isUrgent) {
      if (free !== undefined) arm(free)
      waitsForAccount = true
      return
    }
    // With all accounts out there is room for a probe alone.
    const allowance = route.isEmpty(now) ? 1 : allowanceOf(now - (beganAt ?? now), rate)
    // A queue longer than the allowance holds new notifications, which go first.
    if (queue.size(route.channel) > allowance) beganAt = undefined
    const room = isFree ? Math.min(allowance - queue.size(route.channel), pageMax) : 0
    const critical = Math.min(allowance - queue.critical(route.channel), pageMax)
    if (room <= 0 && (critical <= 0 || !isUrgent)) {
      arm(now + tickMs)
      return
    }
    working = redrive(critical, room)
      .catch((error) => options.onError?.('bring dead letters back', error))
      .finally(() => {
        working = undefined
        arm(clock.now() + tickMs)
      })
  }

  async function redrive(critical: number, room: number): Promise<void> {
    let left = room
    for (const priority of priorities) {
      const max = priority === 'critical' ? critical : left
      if (max > 0) left -= await redrivePriority(priority, max)
    }
  }

  /** Redrives up to `max` dead letters of one priority; resolves to the number that returned. */
  async function redrivePriority(priority: Priority, max: number): Promise<number> {
    if (!maybeDead.delete(priority)) return 0
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
      const allowed: Notification[] = []
      let held = 0
      for (const dead of page.items) {
        if (allowed.length === max) break
        if (dead.attempts > 0 && !route.mayRepeat(now)) held += 1
        else allowed.push(dead)
      }
      const returned = await Promise.all(allowed.map(redriveOne))
      const isRead = allowed.length + held === page.items.length
      const isHeld = held > 0 && allowed.length === 0
      passing.set(priority, isHeld ? pageMax : isRead ? 0 : held)
      if (isRead && page.nextCursor === null) heldUntil.delete(priority)
      else if (isRead && (held > 0 || page.items.length === 0)) heldUntil.set(priority, page.nextCursor!)
      // A page may end early and empty. Then the next one is read, until all pages were empty.
      if (page.items.length > 0) empty.delete(priority)
      else if (cursor === undefined) empty.add(priority)
      const isWhole = cursor === undefined || empty.has(priority)
      const isDone = isRead && page.nextCursor === null && held === 0 && isWhole
      if (!isDone || !returned.every(Boolean)) maybeDead.add(priority)
      return returned.filter(Boolean).length
    } catch (error) {
      maybeDead.add(priority)
      throw error
    }
  }

  /** Redrives one dead letter; false where the record has changed meanwhile, and it is read again. */
  async function redriveOne(dead: Notification): Promise<boolean> {
    const now = clock.now()
    const move = isUnserved(dead)
      ? readmitted(dead, now)
      : advance(dead, [{ at: now, status: 'queued' }], { dueAt: now })
    const { applied } = await ledger.commit({ moves: [move] })
    if (applied) {
      scheduler.place([move.after])
      // Its demand was counted when it first arrived.
      route.asked(clock.now(), -1)
    }
    return applied
  }

  /**
   * Sends it through admission again: it has held no reservation since no pool served it, and its sendAt may be
   * ahead.
   */
  function readmitted(dead: Notification, now: number): Move {
    const isItem = dead.digestId !== undefined || dead.undecided === true
    return advance(dead, [{ at: now, status: 'scheduled', reason: 'provider_capacity' }], {
      dueAt: Math.max(now, dead.sendAt ?? now),
      undecided: true,
      // Its limits had let it wait, so they must not drop it now.
      ...(isItem ? {} : { single: true }),
    })
  }

  return {
    note(priority) {
      maybeDead.add(priority)
      empty.delete(priority)
      beganAt = undefined
    },
    wake,
    changed() {
      if (waitsForAccount) {
        disarm?.()
        disarm = undefined
      }
      wake()
    },
    async stop() {
      stopped = true
      disarm?.()
      disarmLook?.()
      await working
    },
  }
}

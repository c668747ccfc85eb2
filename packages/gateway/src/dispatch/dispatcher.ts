/**
 * The sending loop, one for each channel. It takes as many notifications from the queue as the pool has leases for,
 * asks the limits once more at the very moment of handing over (`fire`), and settles what the provider answers.
 * A lease lasts until the settlement is on disk, so what is in flight is bounded by the pool's concurrency.
 */

import type { Agenda, Attempted, Book, Ledger, People } from '../doors.ts'
import type { SluiceError } from '../errors.ts'
import type { Move, Notification, Recipient, TimelineEvent } from '../model.ts'
import { advance } from '../model.ts'
import type { Clock, Message, Queue, Random, SendResult } from '../ports.ts'
import { createDepartures, type Departure } from './departures.ts'
import { type Composer, compose } from './message.ts'
import type { Lease, Pool } from './pool.ts'
import { backoffMs, parseRetryAfter } from './retry.ts'

export interface DispatcherOptions {
  readonly pools: readonly Pool[]
  readonly queue: Queue
  readonly ledger: Ledger
  readonly book: Book
  readonly people: People
  readonly agenda: Agenda
  readonly composer: Composer
  readonly clock: Clock
  readonly random: Random
  /** What an answer makes of the notification. */
  readonly settle: (attempted: Attempted) => Move
  /** Whether this person may still be sent this (an opt-out holds at once, also for what waits). */
  readonly mayReceive: (notification: Notification, person: Recipient | null) => boolean
  /** Why this person may not be disturbed at an instant. */
  readonly quietAt: (
    notification: Notification,
    person: Recipient | null,
    instant: number,
  ) => 'quiet_hours' | 'legal_hours' | undefined
  /** Where the person must be there to get it and is not: what becomes of it instead of being sent. */
  readonly away?: (
    notification: Notification,
    events: readonly TimelineEvent[],
    now: number,
  ) => Move | undefined
  /** What ends without having been delivered gives back what it holds. */
  readonly giveBack: (held: Notification, ended: Notification['status']) => Promise<void>
  readonly onResult?: (pool: Pool, result: SendResult, durationMs: number) => void
  readonly onTrouble?: (what: string, error: unknown) => void
}

export interface Dispatcher {
  start(): void
  /** Starts nothing new and resolves when what is in flight has settled. */
  drain(): Promise<void>
}

/** Leases taken in one round: enough to share commits and limiter calls, few enough to keep turns fair. */
const roundMax = 128
/** Where Retry-After is missing or invalid. */
const defaultBlockMs = 5_000
/** Nearer than this a notification that may not leave yet waits in memory, without a commit. */
const nearMs = 1_000
/** Until a settlement that the store refused is offered again. */
const settleAgainMs = 200

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { queue, ledger, book, people, agenda, clock, random } = options
  let draining = false
  let inFlight = 0
  let onIdle: (() => void) | undefined
  const departures = createDepartures({ book, clock, onTrouble: options.onTrouble })
  const channels = options.pools.map((pool) => ({ pool, disarm: undefined as (() => void) | undefined }))
  type Channel = (typeof channels)[number]

  function pump(channel: Channel): void {
    while (!draining) {
      const leases = channel.pool.lease(clock.now(), Math.min(roundMax, queue.size(channel.pool.channel)))
      if (leases.length === 0) {
        if (queue.size(channel.pool.channel) > 0) arm(channel)
        return
      }
      const pulled = queue.pull(channel.pool.channel, leases.length)
      for (const lease of leases.splice(pulled.length)) lease.undo()
      if (pulled.length === 0) return
      inFlight += 1
      release(channel, pulled, leases)
        .catch((error) => options.onTrouble?.('dispatch', error))
        .finally(() => {
          inFlight -= 1
          if (inFlight === 0) onIdle?.()
        })
    }
  }

  function arm(channel: Channel): void {
    const free = channel.pool.freeAt(clock.now())
    channel.disarm?.()
    channel.disarm = undefined
    if (free === undefined || free === Number.POSITIVE_INFINITY) return
    channel.disarm = clock.at(free, () => pump(channel))
  }

  /** From the queue to the provider. Leases that turn out not to be needed go back to the pool. */
  async function release(channel: Channel, pulled: readonly Notification[], leases: Lease[]): Promise<void> {
    const moves: Move[] = []
    const ready: { notification: Notification; person: Recipient | null }[] = []
    const staying: typeof ready = []
    const now = clock.now()
    for (const notification of pulled) {
      if (!ledger.isCurrent(notification)) continue
      const { tenant, to } = notification
      const cached = people.cached(tenant, to.id)
      const person = cached === undefined ? await people.find(tenant, to.id) : cached
      if (notification.expiresAt !== undefined && notification.expiresAt <= now) {
        moves.push(advance(notification, [...eventsOf(notification), { at: now, status: 'expired' }]))
      } else if (!options.mayReceive(notification, person)) {
        const event = { at: now, status: 'suppressed', reason: 'opted_out' } as const
        moves.push(advance(notification, [...eventsOf(notification), event]))
      } else {
        const move = options.away?.(notification, eventsOf(notification), now)
        if (move !== undefined) moves.push(move)
        const those = move === undefined ? ready : staying
        those.push({ notification, person })
      }
    }
    let fired: Awaited<ReturnType<Book['fire']>>
    let firedAt: number
    try {
      if (staying.length > 0) await book.cancel(staying)
      await departures.recount(ready)
      firedAt = clock.now()
      fired = ready.length === 0 ? [] : await book.fire(ready)
    } catch (error) {
      for (const lease of leases) lease.undo()
      queue.giveBack(pulled.filter((notification) => ledger.isCurrent(notification)))
      clock.at(clock.now() + settleAgainMs, () => pump(channel))
      throw error
    }
    const sends: Promise<void>[] = []
    fired.forEach(({ fired, at }, index) => {
      const { notification, person } = ready[index]!
      if (!ledger.isCurrent(notification)) {
        void book.cancel([{ notification, person }])
        return
      }
      if (!fired) {
        if (at - now <= nearMs) agenda.postpone(notification, Math.min(at, notification.expiresAt ?? at))
        else moves.push(rebooked(notification, person, at))
        return
      }
      ledger.mark(notification, 'sending')
      const tells = channel.pool.provider.tellsLeaving === true
      const departure = departures.begin({ notification, person, lease: leases.pop()!, firedAt, tells })
      sends.push(send(channel, notification, person, departure))
    })
    for (const lease of leases) lease.undo()
    await Promise.all([...moves.map(write), ...sends])
  }

  function eventsOf(notification: Notification) {
    return ledger.live(notification.id)?.events ?? []
  }

  /** It met hours or limits that were not there when its instant was booked. */
  function rebooked(notification: Notification, person: Recipient | null, at: number): Move {
    const now = clock.now()
    const reason = options.quietAt(notification, person, now) ?? 'recipient_limit'
    const event = { at: now, status: 'scheduled', reason } as const
    // What would leave only after its end waits for its end.
    const dueAt = Math.min(at, notification.expiresAt ?? at)
    return advance(notification, [...eventsOf(notification), event], { dueAt })
  }

  async function send(
    channel: Channel,
    notification: Notification,
    person: Recipient | null,
    departure: Departure,
  ): Promise<void> {
    const { pool } = channel
    const { lease } = departure
    try {
      const result = await attempt(pool, notification, person, lease, departure.leave)
      const now = clock.now()
      departure.end()
      options.onResult?.(pool, result, now - departure.firedAt)
      if (result.outcome === 'rate_limited') {
        lease.block(now + parseRetryAfter(result.retryAfter, now, defaultBlockMs).ms)
      }
      const attempts = notification.attempts + 1
      const retryAt =
        attempts < pool.retry.attemptsMax ? now + backoffMs(pool.retry, attempts, random.next()) : undefined
      const move = options.settle({
        notification,
        events: eventsOf(notification),
        result,
        provider: pool.provider.name,
        account: lease.account.id,
        firedAt: departure.at,
        now,
        idempotent: pool.provider.idempotent,
        ...(retryAt === undefined ? {} : { retryAt }),
      })
      // What may have arrived counts under a name of its own; its repetition is asked afresh.
      if (move.after.suspectAt === now) {
        const perhaps = { ...notification, id: `${notification.id}?${attempts}` }
        await book.left({ notification: perhaps, person })
      }
      await write(move)
    } finally {
      lease.end()
      pump(channel)
    }
  }

  async function attempt(
    pool: Pool,
    notification: Notification,
    person: Recipient | null,
    lease: Lease,
    leave: () => void,
  ): Promise<SendResult> {
    let message: Message
    try {
      message = compose(options.composer, notification, person)
    } catch (error) {
      return { outcome: 'rejected', invalidAddress: false, detail: (error as Error).message }
    }
    const deadline = new AbortController()
    const disarm = clock.at(clock.now() + pool.timeoutMs, () => deadline.abort())
    try {
      return await pool.provider.send(message, lease.account, deadline.signal, leave)
    } catch (error) {
      options.onTrouble?.(`provider ${pool.provider.name}`, error)
      return { outcome: 'failed', detail: (error as Error).message }
    } finally {
      disarm()
    }
  }

  /** Settles for good: what a provider has taken must reach the record, however long the store takes to recover. */
  async function write(move: Move): Promise<void> {
    for (;;) {
      try {
        const result = await ledger.commit({ moves: [move] })
        // A conflict means that the record went another way meanwhile; what it says now is right.
        if (!result.applied) ledger.release(move.before)
        else {
          agenda.place([move.after])
          await options.giveBack(move.before, move.after.status)
        }
        return
      } catch (error) {
        if ((error as SluiceError).code !== 'STORE_UNAVAILABLE') throw error
        options.onTrouble?.('settle', error)
        await new Promise<void>((resolve) => clock.at(clock.now() + settleAgainMs, resolve))
      }
    }
  }

  return {
    start() {
      for (const channel of channels) {
        queue.subscribe(channel.pool.channel, () => pump(channel))
        pump(channel)
      }
    },
    async drain() {
      draining = true
      for (const channel of channels) channel.disarm?.()
      if (inFlight > 0) await new Promise<void>((resolve) => (onIdle = resolve))
    },
  }
}

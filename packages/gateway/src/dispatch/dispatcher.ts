/**
 * The sending loop, one for each channel. It takes as many notifications from the queue as the channel's pools have
 * leases for, asks the limits once more at the very moment of handing over (`fire`), and settles what the provider
 * answers. A lease lasts until the settlement is on disk, so what is in flight is bounded by the accounts' concurrency.
 */

import type { Agenda, Attempted, Book, Ledger, People, Retry } from '../doors.ts'
import type { SluiceError } from '../errors.ts'
import type { DeadCause, Move, Notification, Recipient, TimelineEvent } from '../model.ts'
import { advance } from '../model.ts'
import type { Clock, Message, Queue, Random, SendResult, Store } from '../ports.ts'
import { type Comeback, createComeback } from './comeback.ts'
import { createDepartures, type Departure } from './departures.ts'
import { type Composer, compose } from './message.ts'
import type { Lease, Pool } from './pool.ts'
import { backoffMs } from './retry.ts'
import type { Route } from './route.ts'
import { createShedder, type Shedder } from './shedder.ts'

export interface DispatcherOptions {
  readonly routes: readonly Route[]
  readonly queue: Queue
  readonly store: Pick<Store, 'deadLetters'>
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
  readonly onTrouble?: (what: string, error: unknown) => void
}

export interface Dispatcher {
  start(): void
  /** An account of the pool went out or came back. */
  changed(pool: Pool): void
  /** Starts nothing new and resolves when what is in flight has settled. */
  drain(): Promise<void>
}

/** Leases taken in one round: enough to share commits and limiter calls, few enough to keep turns fair. */
const roundMax = 128
/** Nearer than this a notification that may not leave yet waits in memory, without a commit. */
const nearMs = 1_000
/** Until a settlement that the store refused is offered again. */
const settleAgainMs = 200

interface Channel {
  readonly route: Route
  readonly shedder: Shedder
  readonly comeback: Comeback
  disarm: (() => void) | undefined
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { queue, ledger, book, people, agenda, clock, random, store } = options
  let draining = false
  let inFlight = 0
  let onIdle: (() => void) | undefined
  const departures = createDepartures({ book, clock, onTrouble: options.onTrouble })
  /** Accounts that have just failed a notification: another one is to carry it. */
  const failedBy = new Map<string, string>()
  const channels = options.routes.map((route): Channel => {
    const shed = (overdue: readonly Notification[], cause: DeadCause) =>
      track('shed', kill(channel, overdue, cause))
    const channel: Channel = {
      route,
      shedder: createShedder({ route, queue, clock, shed }),
      comeback: createComeback({
        route,
        store,
        ledger,
        agenda,
        queue,
        clock,
        onTrouble: options.onTrouble,
      }),
      disarm: undefined,
    }
    return channel
  })

  function pump(channel: Channel): void {
    const { route } = channel
    const name = route.channel
    while (!draining) {
      const waiting = queue.size(name)
      if (waiting === 0) {
        channel.comeback.wake()
        return
      }
      const now = clock.now()
      const leases = route.lease(now, Math.min(roundMax, waiting), queue.critical(name))
      if (leases.length === 0) {
        arm(channel, now)
        channel.shedder.watch(now)
        return
      }
      const pulled = queue.pull(name, leases.length)
      for (const lease of leases.splice(pulled.length)) lease.undo()
      if (pulled.length === 0) return
      route.pulled(pulled, now)
      track('dispatch', release(channel, pulled, leases))
    }
  }

  function track(what: string, work: Promise<void>): void {
    inFlight += 1
    work
      .catch((error) => options.onTrouble?.(what, error))
      .finally(() => {
        inFlight -= 1
        if (inFlight === 0) onIdle?.()
      })
  }

  function arm(channel: Channel, now: number): void {
    const free = channel.route.freeAt(now)
    channel.disarm?.()
    channel.disarm = undefined
    if (free === undefined || free === Number.POSITIVE_INFINITY) return
    channel.disarm = clock.at(free, () => pump(channel))
  }

  async function personOf({ tenant, to }: Notification): Promise<Recipient | null> {
    const cached = people.cached(tenant, to.id)
    return cached === undefined ? people.find(tenant, to.id) : cached
  }

  /** From the queue to the provider. Leases that turn out not to be needed go back to the pool. */
  async function release(channel: Channel, pulled: readonly Notification[], leases: Lease[]): Promise<void> {
    const moves: Move[] = []
    const ready: { notification: Notification; person: Recipient | null }[] = []
    const staying: typeof ready = []
    const now = clock.now()
    for (const notification of pulled) {
      if (!ledger.isCurrent(notification)) {
        failedBy.delete(notification.id)
        continue
      }
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
    let next = 0
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
      const lease = suited(channel, notification, leases[next++]!, firedAt)
      const tells = lease.pool.provider.tellsLeaving === true
      const departure = departures.begin({ notification, person, lease, firedAt, tells })
      sends.push(send(channel, notification, person, departure))
    })
    while (next < leases.length) leases[next++]!.undo()
    await Promise.all([...moves.map(write), ...sends])
  }

  /** Not the account that has just failed it, if there is another one. */
  function suited(channel: Channel, { id, attempts }: Notification, lease: Lease, now: number): Lease {
    if (attempts === 0) {
      lease.pool.budget.sent(now)
      return lease
    }
    const failed = failedBy.get(id)
    failedBy.delete(id)
    return failed === lease.account.id ? channel.route.exchange(lease, now) : lease
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
    const { lease } = departure
    const { provider } = lease.pool
    try {
      const result = await attempt(notification, person, lease, departure.leave)
      const now = clock.now()
      departure.end()
      lease.judge(now, result, now - departure.at)
      const move = options.settle({
        notification,
        events: eventsOf(notification),
        result,
        provider: provider.name,
        account: lease.account.id,
        firedAt: departure.at,
        now,
        idempotent: provider.idempotent,
        retry: retryOf(channel, notification, result, lease, now),
      })
      if (move.after.suspects !== notification.suspects) await countSuspicion(move, person)
      await write(move)
      if (move.after.status === 'dead') channel.comeback.note(notification.priority)
    } finally {
      lease.end()
      pump(channel)
    }
  }

  /** The first repetition is another account's, at once; from then on it is the provider that needs time. */
  function retryOf(
    channel: Channel,
    { id, attempts }: Notification,
    result: SendResult,
    lease: Lease,
    now: number,
  ): Retry {
    const { retry, budget, provider } = lease.pool
    const { outcome } = result
    const blameless = outcome === 'failed' && result.blameless === true
    const repeats = outcome === 'failed' || (outcome === 'unknown' && provider.idempotent)
    if (!repeats || attempts + 1 >= retry.attemptsMax) return { kind: 'never' }
    if (!blameless && !budget.take(now)) return { kind: 'no_budget' }
    if (attempts === 0 && !blameless && channel.route.hasOther(lease, now)) {
      failedBy.set(id, lease.account.id)
      return { kind: 'elsewhere' }
    }
    return { kind: 'later', at: now + backoffMs(retry, attempts + 1, random.next()) }
  }

  /** What may have arrived counts under a name of its own; its repetition, if there is one, is asked afresh. */
  async function countSuspicion({ before, after }: Move, person: Recipient | null): Promise<void> {
    const perhaps = { ...before, id: `${before.id}?${after.suspects!.length - 1}` }
    await book.left({ notification: perhaps, person })
    if (after.status === 'dead') await book.cancel([{ notification: before, person }])
  }

  async function attempt(
    notification: Notification,
    person: Recipient | null,
    lease: Lease,
    leave: () => void,
  ): Promise<SendResult> {
    const { provider, timeoutMs } = lease.pool
    let message: Message
    try {
      message = compose(options.composer, notification, person)
    } catch (error) {
      return { outcome: 'rejected', invalidAddress: false, detail: (error as Error).message }
    }
    const deadline = new AbortController()
    const disarm = clock.at(clock.now() + timeoutMs, () => deadline.abort())
    try {
      return await provider.send(message, lease.account, deadline.signal, leave)
    } catch (error) {
      options.onTrouble?.(`provider ${provider.name}`, error)
      return { outcome: 'failed', detail: (error as Error).message }
    } finally {
      disarm()
    }
  }

  /** What has waited for capacity in vain: it holds no instant in the limits any more. */
  async function kill(channel: Channel, overdue: readonly Notification[], cause: DeadCause): Promise<void> {
    await Promise.all(
      overdue.filter(ledger.isCurrent).map(async (notification) => {
        failedBy.delete(notification.id)
        const event = { at: clock.now(), status: 'dead', reason: cause } as const
        const dueAt = notification.expiresAt ?? Number.MAX_SAFE_INTEGER
        await write(advance(notification, [...eventsOf(notification), event], { dueAt }))
        await book.cancel([{ notification, person: await personOf(notification) }])
        channel.comeback.note(notification.priority)
      }),
    )
    channel.comeback.wake()
  }

  /** Settles for good: what a provider has taken must reach the record, however long the store takes to recover. */
  async function write(move: Move): Promise<void> {
    const { before, after } = move
    for (;;) {
      try {
        const result = await ledger.commit({ moves: [move] })
        // A conflict means that the record went another way meanwhile; what it says now is right.
        if (!result.applied) ledger.release(before)
        // It has left the queue before, and did not choose to stand behind others.
        else if (after.status === 'queued') agenda.placeFirst(after)
        // What is delivered waits for nothing and gives nothing back.
        else if (after.status !== 'delivered') {
          agenda.place([after])
          await options.giveBack(before, after.status)
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
        queue.subscribe(channel.route.channel, (arrived) => {
          channel.route.asked(clock.now(), arrived)
          pump(channel)
        })
        pump(channel)
        channel.comeback.wake()
      }
    },
    changed(pool) {
      const channel = channels.find(({ route }) => route.pools.includes(pool))!
      const now = clock.now()
      channel.shedder.watch(now)
      // Its timer may wait for what has changed.
      if (queue.size(pool.channel) > 0) arm(channel, now)
      else channel.comeback.changed()
    },
    async drain() {
      draining = true
      for (const channel of channels) {
        channel.disarm?.()
        channel.shedder.stop()
        await channel.comeback.stop()
      }
      if (inFlight > 0) await new Promise<void>((resolve) => (onIdle = resolve))
    },
  }
}

/**
 * From the queue to the provider, as many at once as there are leases. Each is looked at once more: whether it is still
 * what it was, has not ended, is still wanted; then the limits are asked for all of them together (`fire`), and what
 * they let go is called. Leases that turn out not to be needed go back to their pools. What goes wrong for one is set
 * apart (quarantine.ts).
 */
import type { Payload } from '../content.ts'
import { concernsAll, SluiceError } from '../errors.ts'
import { advance, type Move, type Notification, type Recipient, type TimelineEvent } from '../model.ts'
import { mergeFields } from '../policy/preferences.ts'
import type { Clock, Queue } from '../ports.ts'
import type { Contents, Ledger, RecipientLimiter, Recipients, Scheduler } from '../stages.ts'
import type { ChannelWorker } from './channel-worker.ts'
import { type Completer, settleAgainMs } from './completer.ts'
import type { EndpointPlace, EndpointWait } from './endpoints.ts'
import type { InFlightSends } from './in-flight-sends.ts'
import type { Lease } from './pools/lease.ts'
import { createQuarantine } from './quarantine.ts'
import { type Retries, triedSince } from './retry.ts'
import type { SendAttempts } from './send-attempt.ts'

export interface SendBatchesOptions {
  readonly queue: Pick<Queue, 'giveBack'>
  readonly ledger: Pick<Ledger, 'isCurrent' | 'live' | 'mark'>
  readonly limiter: Pick<RecipientLimiter, 'fire' | 'cancel'>
  readonly recipients: Recipients
  readonly contents: Pick<Contents, 'of'>
  readonly scheduler: Pick<Scheduler, 'postpone'>
  readonly clock: Clock
  readonly calls: SendAttempts
  readonly inFlightSends: InFlightSends
  readonly retries: Retries
  readonly completer: Completer
  /** Whether this recipient may still be sent this (an opt-out holds at once, also for what waits). */
  readonly mayReceive: (notification: Notification, recipient: Recipient | null) => boolean
  /** Why this recipient may not be disturbed at an instant. */
  readonly quietAt: (
    notification: Notification,
    recipient: Recipient | null,
    instant: number,
  ) => 'quiet_hours' | 'legal_hours' | undefined
  /** Where the recipient must be there to get it and is not: what becomes of it instead of being sent. */
  readonly away?: (
    notification: Notification,
    events: readonly TimelineEvent[],
    now: number,
  ) => Move | undefined
  readonly onError: (what: string, error: unknown) => void
}

export interface SendBatches {
  release(worker: ChannelWorker, pulled: readonly Notification[], leases: Lease[]): Promise<void>
}

/** A notification with what it says and whom it is for. */
interface Ready {
  readonly notification: Notification
  /** Absent where it is gone from the record. */
  readonly payload: Payload | undefined
  readonly recipient: Recipient | null
  /** At the recipient's own endpoint, where it calls one. */
  readonly place?: EndpointPlace | undefined
}

/** One that waits in memory: for a while, or for a call to its endpoint to end. */
interface Waiting {
  readonly notification: Notification
  readonly wait: EndpointWait
}

type Staying = Pick<Ready, 'notification' | 'recipient'>

/** What the limits and everything else say of those that were taken from the queue together. */
interface Round {
  readonly ready: readonly Ready[]
  /** Of those that are ready, in their order. */
  readonly fired: Awaited<ReturnType<RecipientLimiter['fire']>>
  readonly firedAt: number
  readonly moves: readonly Move[]
  readonly waiting: readonly Waiting[]
  readonly left: readonly Notification[]
}

/** Nearer than this a notification that may not leave yet waits in memory, without a commit. */
const nearMs = 1_000

/** Content that one round brings into memory, as JSON: what is beyond it goes with the next. */
const roundMaxBytes = 16 * 2 ** 20
/** After so much content others have the event loop: a megabyte takes some milliseconds to write to a socket. */
const sliceBytes = 2 ** 20

const sizeOf = ({ bytes = 0, shared }: Notification): number => bytes + (shared?.bytes ?? 0)

/** The content of a round: what a batch says counts once. */
class BatchSize {
  #bytes = 0
  #contents: Set<string> | undefined

  get isFull(): boolean {
    return this.#bytes >= roundMaxBytes
  }

  add({ bytes = 0, shared }: Notification): void {
    this.#bytes += bytes
    if (shared === undefined) return
    this.#contents ??= new Set()
    if (this.#contents.has(shared.id)) return
    this.#contents.add(shared.id)
    this.#bytes += shared.bytes
  }
}

/** Content that is gone fails the notification; what else goes wrong is trouble of the store. */
function ignoreGone(error: unknown): SluiceError | undefined {
  if (error instanceof SluiceError && error.code === 'NOT_FOUND') return undefined
  return ifDamaged(error)
}

/** A damaged row concerns those only who need it; others of the round go on. */
function ifDamaged(error: unknown): SluiceError {
  if (error instanceof SluiceError && error.row !== undefined) return error
  throw error
}

export function createSendBatches(options: SendBatchesOptions): SendBatches {
  const {
    queue,
    ledger,
    limiter,
    recipients,
    contents,
    scheduler,
    clock,
    calls,
    inFlightSends,
    retries,
    completer,
  } = options
  const quarantine = createQuarantine(options)

  const eventsOf = ({ id }: Notification): readonly TimelineEvent[] => ledger.live(id)?.events ?? []

  async function release(
    worker: ChannelWorker,
    pulled: readonly Notification[],
    leases: Lease[],
  ): Promise<void> {
    let round: Round
    try {
      round = await prepare(worker, pulled, leases)
    } catch (error) {
      if (!concernsAll(error) && pulled.length > 1) return releaseSingly(worker, pulled, leases)
      for (const lease of leases) lease.undo()
      if (!concernsAll(error)) return setApart(worker, pulled[0]!, error)
      queue.giveBack(pulled.filter((notification) => ledger.isCurrent(notification)))
      clock.at(clock.now() + settleAgainMs, worker.pump)
      throw error
    }
    await handOver(worker, round, leases)
  }

  /** Which of them it is that cannot be handed over shows when each has a round of its own. */
  async function releaseSingly(
    worker: ChannelWorker,
    pulled: readonly Notification[],
    leases: readonly Lease[],
  ): Promise<void> {
    const ended = await Promise.allSettled(
      pulled.map((notification, index) => release(worker, [notification], [leases[index]!])),
    )
    const failed = ended.find((each) => each.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }

  /** Something is wrong with this one alone. */
  function setApart(worker: ChannelWorker, notification: Notification, error: unknown): void {
    options.onError(`hand over ${notification.id}`, error)
    worker.freed()
    if (!ledger.isCurrent(notification)) return
    const move = quarantine.add(notification, error)
    if (move === undefined) return
    completer.add(move)
    const { tenant, to } = notification
    recipients
      .find(tenant, to.id)
      .then((recipient) => limiter.cancel([{ notification, recipient }]))
      .catch((failure) => options.onError('give an instant back', failure))
  }

  async function prepare(
    worker: ChannelWorker,
    pulled: readonly Notification[],
    leases: readonly Lease[],
  ): Promise<Round> {
    const ready: Ready[] = []
    const staying: Staying[] = []
    const waiting: Waiting[] = []
    const left: Notification[] = []
    const sizes = new BatchSize()
    const moves: Move[] = []
    try {
      for (const notification of pulled) {
        if (!ledger.isCurrent(notification)) {
          retries.forget(notification.id)
          continue
        }
        const { tenant, to } = notification
        const cached = recipients.cached(tenant, to.id)
        const recipient =
          cached === undefined ? await recipients.find(tenant, to.id).catch(ifDamaged) : cached
        if (recipient instanceof SluiceError) {
          moves.push(poisoned(notification, recipient))
          staying.push({ notification, recipient: null })
          continue
        }
        const move = instead(notification, recipient, staying)
        if (move !== undefined) {
          moves.push(move)
          continue
        }
        if (sizes.isFull) {
          left.push(notification)
          continue
        }
        const found = contents.of(notification)
        const payload = found instanceof Promise ? await found.catch(ignoreGone) : found
        if (payload instanceof SluiceError) {
          moves.push(poisoned(notification, payload))
          staying.push({ notification, recipient })
          continue
        }
        const entered = enter(worker, notification, recipient, leases[ready.length]!)
        if (entered?.goes !== false) {
          sizes.add(notification)
          ready.push({ notification, payload, recipient, place: entered })
        } else if (isNear(entered)) waiting.push({ notification, wait: entered })
        else {
          moves.push(leftAlone(notification, entered, leases[ready.length]!))
          staying.push({ notification, recipient })
        }
      }
      if (staying.length > 0) await limiter.cancel(staying)
      await inFlightSends.recount(ready)
      const firedAt = clock.now()
      const fired = ready.length === 0 ? [] : await limiter.fire(ready)
      return { ready, fired, firedAt, moves, waiting, left }
    } catch (error) {
      for (const { place } of ready) place?.undo(clock.now())
      throw error
    }
  }

  async function handOver(worker: ChannelWorker, round: Round, leases: readonly Lease[]): Promise<void> {
    const { ready, fired, firedAt } = round
    for (const move of round.moves) completer.add(move, worker.freed)
    for (const { notification, wait } of round.waiting) {
      if (wait.at === undefined) worker.endpoints.park(wait, notification)
      else scheduler.postpone(notification, wait.at)
    }
    if (round.left.length > 0) queue.giveBack(round.left)
    let next = 0
    let handedOver = 0
    for (let index = 0; index < fired.length; index += 1) {
      const { notification, place } = ready[index]!
      try {
        if (!goes(ready[index]!, fired[index]!)) {
          place?.undo(clock.now())
          continue
        }
        begin(worker, ready[index]!, leases[next]!, firedAt)
        next += 1
      } catch (error) {
        place?.undo(clock.now())
        setApart(worker, notification, error)
        continue
      }
      quarantine.release(notification.id)
      handedOver += sizeOf(notification)
      if (handedOver < sliceBytes) continue
      handedOver = 0
      await new Promise<void>((resolve) => clock.soon(resolve))
    }
    worker.endpoints.look(clock.now())
    if (next === leases.length) return
    while (next < leases.length) leases[next++]!.undo()
    worker.freed()
  }

  /** What it says, or what its recipient wants, cannot be read: nothing is sent by guess. */
  function poisoned(notification: Notification, { row }: SluiceError): Move {
    const detail = `damaged in the store: ${row}`
    const event = { at: clock.now(), status: 'dead', reason: 'poison', detail } as const
    const dueAt = notification.expiresAt ?? Number.MAX_SAFE_INTEGER
    return advance(notification, [...eventsOf(notification), event], { dueAt })
  }

  /** What becomes of it instead of being sent. */
  function instead(
    notification: Notification,
    recipient: Recipient | null,
    staying: Staying[],
  ): Move | undefined {
    const now = clock.now()
    if (notification.expiresAt !== undefined && notification.expiresAt <= now) {
      return advance(notification, [...eventsOf(notification), { at: now, status: 'expired' }])
    }
    if (!options.mayReceive(notification, recipient)) {
      const event = { at: now, status: 'suppressed', reason: 'opted_out' } as const
      return advance(notification, [...eventsOf(notification), event])
    }
    const move = options.away?.(notification, eventsOf(notification), now)
    if (move !== undefined) staying.push({ notification, recipient })
    return move
  }

  /** A place at the recipient's own endpoint; `undefined` where the account calls its own service. */
  function enter(
    worker: ChannelWorker,
    { to }: Notification,
    recipient: Recipient | null,
    { pool, account, holder }: Lease,
  ): EndpointPlace | EndpointWait | undefined {
    const endpoint = pool.provider.endpointOf?.(mergeFields(to, recipient), account)
    return endpoint === undefined
      ? undefined
      : worker.endpoints.enter(endpoint, holder.concurrency, clock.now())
  }

  const isNear = ({ at }: EndpointWait): boolean => at === undefined || at - clock.now() <= nearMs

  /** It waits on record until its endpoint is free, without an attempt; what is tried for too long is given up. */
  function leftAlone(notification: Notification, { origin, at }: EndpointWait, { pool }: Lease): Move {
    const now = clock.now()
    const { expiresAt } = notification
    if (now - triedSince(notification, now) >= pool.retry.outage.forMs) {
      const detail = `${origin} has not taken it for too long`
      const event = { at: now, status: 'dead', reason: 'attempts_exhausted', detail } as const
      const dueAt = expiresAt ?? Number.MAX_SAFE_INTEGER
      return advance(notification, [...eventsOf(notification), event], { dueAt })
    }
    const event = {
      at: now,
      status: 'scheduled',
      reason: 'provider_capacity',
      detail: `${origin} is left alone for now`,
    } as const
    const dueAt = Math.min(at!, expiresAt ?? at!)
    return advance(notification, [...eventsOf(notification), event], { dueAt })
  }

  /** Whether the limits let it go, and it is still what they were asked for: then it is with a provider from now on. */
  function goes(
    { notification, recipient }: Staying,
    { fired, at }: { fired: boolean; at: number },
  ): boolean {
    if (fired ? !ledger.mark(notification, 'sending') : !ledger.isCurrent(notification)) {
      limiter
        .cancel([{ notification, recipient }])
        .catch((error) => options.onError('give an instant back', error))
      return false
    }
    if (fired) return true
    const now = clock.now()
    if (at - now <= nearMs) scheduler.postpone(notification, Math.min(at, notification.expiresAt ?? at))
    else completer.add(rebooked(notification, recipient, at, now))
    return false
  }

  function begin(
    worker: ChannelWorker,
    { notification, payload, recipient, place }: Ready,
    given: Lease,
    firedAt: number,
  ): void {
    const lease = retries.suited(worker.route, notification, given, firedAt)
    calls.begin(worker, { notification, payload, recipient, lease, firedAt, place })
  }

  /** It met hours or limits that were not there when its instant was booked. */
  function rebooked(notification: Notification, recipient: Recipient | null, at: number, now: number): Move {
    const reason = options.quietAt(notification, recipient, now) ?? 'recipient_limit'
    const event = { at: now, status: 'scheduled', reason } as const
    // What would leave only after its end waits for its end.
    const dueAt = Math.min(at, notification.expiresAt ?? at)
    return advance(notification, [...eventsOf(notification), event], { dueAt })
  }

  return { release }
}

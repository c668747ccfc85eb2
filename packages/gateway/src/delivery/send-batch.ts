/**
 * Sends a batch of notifications from the queue, as many as there are leases. Each is checked again (still current,
 * not expired, not opted out, recipient connected), then `fire` asks the limits for all of them together, and those
 * that pass are handed to their providers. Unused leases return to their pools. A notification on which the program
 * fails is quarantined (quarantine.ts).
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
  readonly attempts: SendAttempts
  readonly inFlightSends: InFlightSends
  readonly retries: Retries
  readonly completer: Completer
  /** Tests if the recipient may be sent this now: an opt-out applies at once, also to waiting notifications. */
  readonly mayReceive: (notification: Notification, recipient: Recipient | null) => boolean
  /** Gives the reason for which the recipient may not be disturbed at an instant. */
  readonly quietAt: (
    notification: Notification,
    recipient: Recipient | null,
    instant: number,
  ) => 'quiet_hours' | 'legal_hours' | undefined
  /** Decides a notification whose recipient must be connected and is not. */
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

/** A notification with its content and recipient. */
interface Ready {
  readonly notification: Notification
  /** Absent if the content is gone from the record. */
  readonly payload: Payload | undefined
  readonly recipient: Recipient | null
  /** Its place at the recipient's own endpoint, if it calls one. */
  readonly place?: EndpointPlace | undefined
}

/** A notification that waits in memory: for a while, or for a call to its endpoint to end. */
interface Waiting {
  readonly notification: Notification
  readonly wait: EndpointWait
}

type NotSent = Pick<Ready, 'notification' | 'recipient'>

/** The prepared batch: results of the checks and of the limits. */
interface PreparedBatch {
  readonly ready: readonly Ready[]
  /** Answers of the limits, in the order of `ready`. */
  readonly fired: Awaited<ReturnType<RecipientLimiter['fire']>>
  readonly firedAt: number
  readonly moves: readonly Move[]
  readonly waiting: readonly Waiting[]
  readonly left: readonly Notification[]
}

/** A notification that may leave within this time waits in memory, without a commit, ms. */
const nearMs = 1_000

/** Content that one batch reads into memory, as JSON; notifications beyond it go with the next batch. */
const batchMaxBytes = 16 * 2 ** 20
/** Content after which a batch yields the event loop: a megabyte takes some milliseconds to write to a socket. */
const sliceBytes = 2 ** 20

const sizeOf = ({ bytes = 0, shared }: Notification): number => bytes + (shared?.bytes ?? 0)

/** Counts the content of a batch; content that several notifications share counts once. */
class BatchSize {
  #bytes = 0
  #contents: Set<string> | undefined

  get isFull(): boolean {
    return this.#bytes >= batchMaxBytes
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

/** Treats missing content as absent (the notification fails); any other error is a failure of the store. */
function ignoreMissing(error: unknown): SluiceError | undefined {
  if (error instanceof SluiceError && error.code === 'NOT_FOUND') return undefined
  return ifDamaged(error)
}

/** Returns an error about a damaged row, which concerns only its notifications; rethrows any other. */
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
    attempts,
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
    let batch: PreparedBatch
    try {
      batch = await prepare(worker, pulled, leases)
    } catch (error) {
      if (!concernsAll(error) && pulled.length > 1) return releaseSingly(worker, pulled, leases)
      for (const lease of leases) lease.undo()
      if (!concernsAll(error)) return isolate(worker, pulled[0]!, error)
      queue.giveBack(pulled.filter((notification) => ledger.isCurrent(notification)))
      clock.at(clock.now() + settleAgainMs, worker.pump)
      throw error
    }
    await handOver(worker, batch, leases)
  }

  /** Sends each notification in a batch of its own, to find the one that fails. */
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

  /** Quarantines one notification on which the program fails. */
  function isolate(worker: ChannelWorker, notification: Notification, error: unknown): void {
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
  ): Promise<PreparedBatch> {
    const ready: Ready[] = []
    const notSent: NotSent[] = []
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
          notSent.push({ notification, recipient: null })
          continue
        }
        const move = checkBeforeSend(notification, recipient, notSent)
        if (move !== undefined) {
          moves.push(move)
          continue
        }
        if (sizes.isFull) {
          left.push(notification)
          continue
        }
        const found = contents.of(notification)
        const payload = found instanceof Promise ? await found.catch(ignoreMissing) : found
        if (payload instanceof SluiceError) {
          moves.push(poisoned(notification, payload))
          notSent.push({ notification, recipient })
          continue
        }
        const entered = enter(worker, notification, recipient, leases[ready.length]!)
        if (entered?.goes !== false) {
          sizes.add(notification)
          ready.push({ notification, payload, recipient, place: entered })
        } else if (isNear(entered)) waiting.push({ notification, wait: entered })
        else {
          moves.push(paused(notification, entered, leases[ready.length]!))
          notSent.push({ notification, recipient })
        }
      }
      if (notSent.length > 0) await limiter.cancel(notSent)
      await inFlightSends.recount(ready)
      const firedAt = clock.now()
      const fired = ready.length === 0 ? [] : await limiter.fire(ready)
      return { ready, fired, firedAt, moves, waiting, left }
    } catch (error) {
      for (const { place } of ready) place?.undo(clock.now())
      throw error
    }
  }

  async function handOver(
    worker: ChannelWorker,
    batch: PreparedBatch,
    leases: readonly Lease[],
  ): Promise<void> {
    const { ready, fired, firedAt } = batch
    for (const move of batch.moves) completer.add(move, worker.freed)
    for (const { notification, wait } of batch.waiting) {
      if (wait.at === undefined) worker.endpoints.park(wait, notification)
      else scheduler.postpone(notification, wait.at)
    }
    if (batch.left.length > 0) queue.giveBack(batch.left)
    let next = 0
    let handedOver = 0
    for (let index = 0; index < fired.length; index += 1) {
      const { notification, place } = ready[index]!
      try {
        if (!markSending(ready[index]!, fired[index]!)) {
          place?.undo(clock.now())
          continue
        }
        begin(worker, ready[index]!, leases[next]!, firedAt)
        next += 1
      } catch (error) {
        place?.undo(clock.now())
        isolate(worker, notification, error)
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

  /** Makes a dead letter of a notification whose content or recipient cannot be read: nothing is sent by guess. */
  function poisoned(notification: Notification, { row }: SluiceError): Move {
    const detail = `damaged in the store: ${row}`
    const event = { at: clock.now(), status: 'dead', reason: 'poison', detail } as const
    const dueAt = notification.expiresAt ?? Number.MAX_SAFE_INTEGER
    return advance(notification, [...eventsOf(notification), event], { dueAt })
  }

  /** Checks expiry, opt-out and presence; returns the move if it is not to be sent. */
  function checkBeforeSend(
    notification: Notification,
    recipient: Recipient | null,
    notSent: NotSent[],
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
    if (move !== undefined) notSent.push({ notification, recipient })
    return move
  }

  /** Asks for a place at the recipient's own endpoint; `undefined` where the account calls its own service. */
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

  /** Schedules it for when its endpoint is free, without an attempt; after too long it becomes a dead letter. */
  function paused(notification: Notification, { origin, at }: EndpointWait, { pool }: Lease): Move {
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

  /** Tests if the limits let it go and it is still current; then it is marked as sending. */
  function markSending(
    { notification, recipient }: NotSent,
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
    else completer.add(rescheduled(notification, recipient, at, now))
    return false
  }

  function begin(
    worker: ChannelWorker,
    { notification, payload, recipient, place }: Ready,
    given: Lease,
    firedAt: number,
  ): void {
    const lease = retries.suited(worker.route, notification, given, firedAt)
    attempts.begin(worker, { notification, payload, recipient, lease, firedAt, place })
  }

  /** Schedules it again: it met quiet hours or limits that did not apply when it was reserved. */
  function rescheduled(
    notification: Notification,
    recipient: Recipient | null,
    at: number,
    now: number,
  ): Move {
    const reason = options.quietAt(notification, recipient, now) ?? 'recipient_limit'
    const event = { at: now, status: 'scheduled', reason } as const
    // If it would expire before its slot, it is scheduled for its expiry instead.
    const dueAt = Math.min(at, notification.expiresAt ?? at)
    return advance(notification, [...eventsOf(notification), event], { dueAt })
  }

  return { release }
}

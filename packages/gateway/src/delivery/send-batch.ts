/**
 * Sends a batch of attempts. Each notification is checked again (still current, not expired, not opted out, recipient
 * connected); the ledger gives the right to send (`begin`), the limits are asked for all of them together (`fire`),
 * and those that pass are sent. In this order: what has the right is neither cancelled nor decided anew while the
 * limits are asked. All other attempts are released. A notification on which the program fails is quarantined.
 */
import { concernsAll, SluiceError } from '../errors.ts'
import type { Move, Notification, Recipient, TimelineEvent } from '../model.ts'
import { mergeFields } from '../policy/preferences.ts'
import type { Clock, Queue } from '../ports.ts'
import type { Contents, Ledger, RecipientLimiter, Recipients, Scheduler } from '../stages.ts'
import type { Attempt } from './attempt.ts'
import { BatchSize, sizeOf } from './batch-size.ts'
import type { Completer } from './completer.ts'
import type { Endpoints, EndpointWait } from './endpoints.ts'
import type { InFlightSends } from './in-flight-sends.ts'
import { damaged, deadLetter, expired, optedOut, postponed } from './not-sent.ts'
import type { Quarantine } from './quarantine.ts'
import { type Retries, triedSince } from './retry.ts'

/** Checks of policy and presence right before a notification is sent. */
export interface SendChecks {
  /** Tests if the recipient may be sent this now: an opt-out applies at once, also to waiting notifications. */
  readonly mayReceive: (notification: Notification, recipient: Recipient | null) => boolean
  /** Gives the reason for which the recipient may not be disturbed at an instant. */
  readonly quietAt: (
    notification: Notification,
    recipient: Recipient | null,
    instant: number,
  ) => 'quiet_hours' | 'legal_hours' | undefined
  /** Decides a notification whose recipient must be connected and is not. */
  readonly away?:
    | ((notification: Notification, events: readonly TimelineEvent[], now: number) => Move | undefined)
    | undefined
}

export interface SendBatchesOptions {
  readonly checks: SendChecks
  readonly queue: Pick<Queue, 'giveBack'>
  readonly ledger: Pick<Ledger, 'isCurrent' | 'begin'>
  readonly limiter: Pick<RecipientLimiter, 'fire' | 'cancel'>
  readonly recipients: Recipients
  readonly contents: Pick<Contents, 'of'>
  readonly scheduler: Pick<Scheduler, 'postpone'>
  readonly clock: Clock
  readonly endpoints: Endpoints
  readonly inFlightSends: InFlightSends
  readonly retries: Pick<Retries, 'forget'>
  readonly quarantine: Quarantine
  readonly completer: Pick<Completer, 'add'>
  readonly onError: (what: string, error: unknown) => void
}

/**
 * Sends the attempts; resolves when each of them is sent or released. Rejects where the store or the limits do not
 * answer; then all notifications are back in the queue.
 */
export type SendBatch = (attempts: readonly Attempt[]) => Promise<void>

/** The results of the checks. */
interface CheckedBatch {
  /** Attempts that may be sent if the limits admit them. */
  readonly ready: Attempt[]
  readonly ended: { readonly attempt: Attempt; readonly move: Move }[]
  /** Attempts whose endpoint must be waited for in memory: for a while, or until a call to it ends. */
  readonly waiting: { readonly attempt: Attempt; readonly wait: EndpointWait }[]
  /** Attempts for which this batch has no room. */
  readonly left: Attempt[]
  /** Notifications that will not leave now and hold a reservation. */
  readonly unused: Pick<Attempt, 'notification' | 'recipient'>[]
}

/** A notification that may leave within this time waits in memory, without a commit, ms. */
const nearMs = 1_000
/** Content after which a batch yields the event loop: a megabyte takes some milliseconds to write to a socket. */
const sliceBytes = 2 ** 20

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

export function createSendBatch(options: SendBatchesOptions): SendBatch {
  const { checks, queue, ledger, limiter, recipients, contents, scheduler, clock } = options
  const { endpoints, inFlightSends, retries, quarantine, completer, onError } = options

  async function send(attempts: readonly Attempt[]): Promise<void> {
    const { changes } = recipients
    let batch: CheckedBatch
    let firings: Awaited<ReturnType<RecipientLimiter['fire']>>
    let firedAt: number
    let until: number
    try {
      batch = await check(attempts)
      const { ready, unused } = batch
      if (unused.length > 0) await limiter.cancel(unused)
      if (!inFlightSends.isEmpty) await inFlightSends.recount(ready)
      const answer = ledger.begin(ready)
      const begun = answer instanceof Promise ? await answer : answer
      keepBegun(ready, begun.refused)
      until = begun.until
      firedAt = clock.now()
      firings = ready.length === 0 ? [] : await limiter.fire(ready)
    } catch (error) {
      return giveUp(attempts, error)
    }
    follow(batch)
    let sentBytes = 0
    for (let index = 0; index < batch.ready.length; index += 1) {
      const attempt = batch.ready[index]!
      const { fired, at } = firings[index]!
      try {
        if (!fired) delay(attempt, at)
        else if (isOver(attempt, until) || (recipients.changes !== changes && isForbidden(attempt)))
          putBack(attempt)
        else if (attempt.fired(firedAt)) attempt.send()
        else drop(attempt)
      } catch (error) {
        isolate(attempt, error)
      }
      if (attempt.state === 'released') continue
      quarantine.release(attempt.notification.id)
      sentBytes += sizeOf(attempt.notification)
      if (sentBytes < sliceBytes) continue
      sentBytes = 0
      await new Promise<void>((resolve) => clock.soon(resolve))
    }
    endpoints.look(clock.now())
  }

  /** Checks all attempts before any of them takes effect. */
  async function check(attempts: readonly Attempt[]): Promise<CheckedBatch> {
    const batch: CheckedBatch = { ready: [], ended: [], waiting: [], left: [], unused: [] }
    const { ready, ended, waiting, left, unused } = batch
    const sizes = new BatchSize()
    for (const attempt of attempts) {
      const { notification } = attempt
      if (!ledger.isCurrent(notification)) {
        retries.forget(notification.id)
        attempt.release()
        continue
      }
      const { tenant, to } = notification
      const cached = recipients.cached(tenant, to.id)
      const recipient = cached === undefined ? await recipients.find(tenant, to.id).catch(ifDamaged) : cached
      if (recipient instanceof SluiceError) {
        ended.push({ attempt, move: damaged(notification, attempt.events, clock.now(), recipient.row) })
        unused.push(attempt)
        continue
      }
      attempt.recipient = recipient
      const move = checkedMove(attempt, unused)
      if (move !== undefined) {
        ended.push({ attempt, move })
        continue
      }
      if (sizes.isFull) {
        left.push(attempt)
        continue
      }
      const found = contents.of(notification)
      const payload = found instanceof Promise ? await found.catch(ignoreMissing) : found
      if (payload instanceof SluiceError) {
        ended.push({ attempt, move: damaged(notification, attempt.events, clock.now(), payload.row) })
        unused.push(attempt)
        continue
      }
      attempt.payload = payload
      const wait = enterEndpoint(attempt)
      if (wait === undefined) {
        sizes.add(notification)
        ready.push(attempt)
      } else if (wait.at === undefined || wait.at - clock.now() <= nearMs) waiting.push({ attempt, wait })
      else {
        ended.push({ attempt, move: paused(attempt, wait.origin, wait.at) })
        unused.push(attempt)
      }
    }
    return batch
  }

  /** Checks expiry, opt-out and presence; returns the move if it is not to be sent. */
  function checkedMove(attempt: Attempt, unused: CheckedBatch['unused']): Move | undefined {
    const { notification, recipient } = attempt
    const now = clock.now()
    if (notification.expiresAt !== undefined && notification.expiresAt <= now)
      return expired(notification, attempt.events, now)
    if (!checks.mayReceive(notification, recipient)) return optedOut(notification, attempt.events, now)
    const move = checks.away?.(notification, attempt.events, now)
    if (move !== undefined) unused.push(attempt)
    return move
  }

  /** Takes a place at the recipient's own endpoint, if it calls one; returns how it must wait where there is none. */
  function enterEndpoint(attempt: Attempt): EndpointWait | undefined {
    const { pool, account, holder } = attempt.lease
    const endpoint = pool.provider.endpointOf?.(
      mergeFields(attempt.notification.to, attempt.recipient),
      account,
    )
    if (endpoint === undefined) return undefined
    const entered = endpoints.enter(endpoint, holder.concurrency, clock.now())
    if (!entered.goes) return entered
    attempt.place = entered
    return undefined
  }

  /** Schedules it for when its endpoint is free, without an attempt; after too long it becomes a dead letter. */
  function paused({ notification, events, lease }: Attempt, origin: string, at: number): Move {
    const now = clock.now()
    if (now - triedSince(notification, now) >= lease.pool.retry.outage.forMs) {
      const detail = `${origin} has not taken it for too long`
      return deadLetter(notification, events, now, { reason: 'attempts_exhausted', detail })
    }
    const detail = `${origin} is left alone for now`
    return postponed(notification, events, now, { at, reason: 'provider_capacity', detail })
  }

  /** Keeps the attempts that have the right to send; releases those whose notification has gone another way. */
  function keepBegun(ready: Attempt[], refused: ReadonlySet<string>): void {
    let kept = 0
    for (const attempt of ready) {
      const { id } = attempt.notification
      if (refused.has(id)) {
        retries.forget(id)
        attempt.release()
        continue
      }
      attempt.begun()
      ready[kept] = attempt
      kept += 1
    }
    ready.length = kept
  }

  /** Releases the attempts that are not sent, and brings their notifications on their way. */
  function follow({ ended, waiting, left }: CheckedBatch): void {
    for (const { attempt, move } of ended) {
      attempt.release()
      completer.add(move)
    }
    for (const { attempt, wait } of waiting) {
      attempt.release()
      if (wait.at === undefined) endpoints.park(wait, attempt.notification)
      else scheduler.postpone(attempt.notification, wait.at)
    }
    if (left.length === 0) return
    for (const attempt of left) attempt.release()
    queue.giveBack(left.map(({ notification }) => notification))
  }

  /** Tests if the right to send has ended, or the notification has expired. */
  function isOver({ notification: { expiresAt } }: Attempt, until: number): boolean {
    const now = clock.now()
    return now > until || (expiresAt !== undefined && expiresAt <= now)
  }

  /** Tests if a preference that was saved since the checks forbids to send it. */
  function isForbidden({ notification, recipient: checked }: Attempt): boolean {
    const recipient = recipients.cached(notification.tenant, notification.to.id)
    if (recipient === checked) return false
    // It was forgotten meanwhile, so it must be read again.
    if (recipient === undefined || !checks.mayReceive(notification, recipient)) return true
    return checks.quietAt(notification, recipient, clock.now()) !== undefined
  }

  /** Returns it to the queue: the checks of the next batch decide it. */
  function putBack(attempt: Attempt): void {
    attempt.release()
    queue.giveBack([attempt.notification])
  }

  /** Waits for the instant of the limits: in memory if it is near; else it is scheduled again on record. */
  function delay(attempt: Attempt, at: number): void {
    const { notification, recipient } = attempt
    if (!ledger.isCurrent(notification)) {
      drop(attempt)
      return
    }
    attempt.release()
    const now = clock.now()
    if (at - now <= nearMs) {
      scheduler.postpone(notification, Math.min(at, notification.expiresAt ?? at))
      return
    }
    // It met quiet hours or limits that did not apply when it was reserved.
    const reason = checks.quietAt(notification, recipient, now) ?? 'recipient_limit'
    completer.add(postponed(notification, attempt.events, now, { at, reason }))
  }

  /** Ends the attempt of a notification that has gone another way while it was fired. */
  function drop(attempt: Attempt): void {
    attempt.release()
    cancelReservation(attempt)
  }

  function cancelReservation(attempt: Pick<Attempt, 'notification' | 'recipient'>): void {
    limiter.cancel([attempt]).catch((error) => onError('give an instant back', error))
  }

  /**
   * Handles a failed batch. An error that concerns one notification is searched by sending each in a batch of its own;
   * if the store or the limits do not answer, all of them return to the queue.
   */
  async function giveUp(attempts: readonly Attempt[], error: unknown): Promise<void> {
    const open = attempts.filter(({ state }) => state !== 'released')
    const isGeneral = concernsAll(error)
    if (!isGeneral && attempts.length > 1) {
      for (const attempt of open) attempt.withdraw()
      const ended = await Promise.allSettled(open.map((attempt) => send([attempt])))
      const failed = ended.find((each) => each.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      return
    }
    if (!isGeneral) return isolate(attempts[0]!, error)
    for (const attempt of open) attempt.release()
    queue.giveBack(open.map(({ notification }) => notification).filter(ledger.isCurrent))
    throw error
  }

  /** Quarantines one notification on which the program fails. */
  function isolate(attempt: Attempt, error: unknown): void {
    const { notification } = attempt
    const { tenant, to, id } = notification
    attempt.release()
    onError(`hand over ${id}`, error)
    if (!ledger.isCurrent(notification)) return
    const move = quarantine.add(notification, error)
    if (move === undefined) return
    completer.add(move)
    recipients
      .find(tenant, to.id)
      .then((recipient) => cancelReservation({ notification, recipient }))
      .catch((failure) => onError('give an instant back', failure))
  }

  return send
}

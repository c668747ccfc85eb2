/**
 * Sends a batch of attempts. Each notification is checked again (still current, not expired, not opted out, recipient
 * connected); the ledger gives the right to send (`begin`), the limits are asked for all of them together (`fire`),
 * and those that pass are sent. In this order: what has the right is neither cancelled nor decided anew while the
 * limits are asked. All other attempts are released. A notification on which the program fails is quarantined.
 */
import { concernsAll } from '../errors.ts'
import type { Clock, Queue, Store } from '../ports.ts'
import type { Begun, Contents, Ledger, RecipientLimiter, Recipients, Scheduler } from '../stages.ts'
import type { Attempt } from './attempt.ts'
import { sizeOf } from './batch-size.ts'
import type { Completer } from './completer.ts'
import type { Endpoints } from './endpoints.ts'
import { firedInTime } from './fired-in-time.ts'
import type { InFlightSends } from './in-flight-sends.ts'
import { postponed, suppressed } from './not-sent.ts'
import type { Quarantine } from './quarantine.ts'
import type { Retries } from './retry.ts'
import { type CheckedBatch, createSendChecks, nearMs } from './send-checks.ts'
import type { SendRules } from './send-rules.ts'

export interface SendBatchesOptions {
  readonly rules: SendRules
  readonly queue: Pick<Queue, 'giveBack'>
  readonly store: Pick<Store, 'isVersioned'>
  readonly ledger: Pick<Ledger, 'isCurrent' | 'begin'>
  readonly limiter: Pick<RecipientLimiter, 'fire' | 'cancel' | 'takeBack'>
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
 * Sends the attempts; resolves when each of them is sent or released, to the number whose right to send, or whose answer of
 * the limits, was too old for the call. Rejects where the store or the limits do not answer; then all notifications are
 * back in the queue.
 */
export type SendBatch = (attempts: readonly Attempt[]) => Promise<number>

/**
 * Attempts that are fired together. An answer of the limits permits its call for a few milliseconds, and one that waits
 * for a hundred others over a network is too old.
 */
const firedTogether = 32

interface FiredPart {
  readonly attempts: readonly Attempt[]
  /** Taken before the limits were asked. */
  readonly firedAt: number
  readonly firings: Awaited<ReturnType<RecipientLimiter['fire']>>
}

/** Attempts of which the limits were not asked, or did not answer. */
interface FailedPart {
  readonly attempts: readonly Attempt[]
  readonly error: unknown
}

/** Content after which a batch yields the event loop: a megabyte takes some milliseconds to write to a socket. */
const sliceBytes = 2 ** 20

export function createSendBatch(options: SendBatchesOptions): SendBatch {
  const { rules, queue, store, ledger, limiter, recipients, contents, scheduler, clock } = options
  const { endpoints, inFlightSends, retries, quarantine, completer, onError } = options
  const check = createSendChecks({ rules, store, ledger, recipients, contents, clock, endpoints, retries })

  async function send(attempts: readonly Attempt[]): Promise<number> {
    const checked = { changes: recipients.changes, version: rules.policyVersion() }
    let batch: CheckedBatch
    let until: number
    try {
      batch = await check(attempts)
      const { ready, unused } = batch
      if (unused.length > 0) await limiter.takeBack(unused)
      if (!inFlightSends.isEmpty) await inFlightSends.recount(ready)
      const answer = ledger.begin(ready)
      const begun = answer instanceof Promise ? await answer : answer
      keepBegun(ready, begun)
      until = begun.until
    } catch (error) {
      return giveUp(attempts, error)
    }
    follow(batch)
    const parts = Array.from({ length: Math.ceil(batch.ready.length / firedTogether) }, (_, index) =>
      fire(batch.ready.slice(index * firedTogether, (index + 1) * firedTogether)),
    )
    let late = 0
    let failed: { readonly error: unknown } | undefined
    // In their order, so that those of one recipient leave in it.
    for (const part of parts) {
      const fired = await part
      try {
        late +=
          'error' in fired
            ? await giveUp(fired.attempts, fired.error)
            : await sendFired(fired, until, checked)
      } catch (error) {
        failed ??= { error }
      }
    }
    endpoints.look(clock.now())
    if (failed !== undefined) throw failed.error
    return late
  }

  async function fire(attempts: readonly Attempt[]): Promise<FiredPart | FailedPart> {
    const firedAt = clock.now()
    try {
      return { attempts, firedAt, firings: await limiter.fire(attempts) }
    } catch (error) {
      return { attempts, error }
    }
  }

  /** Sends those that the limits have admitted; returns how many of them had a right or an answer too old for the call. */
  async function sendFired(
    { attempts, firedAt, firings }: FiredPart,
    until: number,
    { changes, version }: { readonly changes: number; readonly version: string },
  ): Promise<number> {
    let sentBytes = 0
    let late = 0
    for (const [index, attempt] of attempts.entries()) {
      const firing = firings[index]!
      const isTold = attempt.lease.pool.provider.tellsWritten === true
      const { fired, at } = firedInTime(firing, clock.now(), isTold)
      const isBehind = fired && !inFlightSends.isEmpty && inFlightSends.isBehind(attempt, at)
      try {
        if (isBehind) delay(attempt, clock.now())
        else if (firing.fired && (!fired || clock.monotonic() > until)) {
          late += 1
          putBack(attempt)
        } else if (rules.policyVersion() !== version) putBack(attempt)
        else if (!fired) delay(attempt, at, firing.isDuplicate)
        else if (isOver(attempt) || (recipients.changes !== changes && isForbidden(attempt))) putBack(attempt)
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
    return late
  }

  /** Keeps the attempts that have the right to send; releases those whose notification has gone another way. */
  function keepBegun(ready: Attempt[], { refused, outdated, until }: Begun): void {
    let kept = 0
    for (const attempt of ready) {
      const { id, tenant, to } = attempt.notification
      // Then it is put back below, and the next batch reads the recipient.
      if (outdated?.has(id)) recipients.forget(tenant, to.id)
      if (refused.has(id)) {
        retries.forget(id)
        attempt.release()
        continue
      }
      attempt.begun(until)
      ready[kept] = attempt
      kept += 1
    }
    ready.length = kept
  }

  /** Releases the attempts that are not sent, and brings their notifications on their way. */
  function follow({ ended, waiting, noRoom }: CheckedBatch): void {
    for (const { attempt, move } of ended) {
      attempt.release()
      completer.add(move)
    }
    for (const { attempt, wait } of waiting) {
      attempt.release()
      if (wait.at === undefined) endpoints.park(wait, attempt.notification)
      else scheduler.postpone(attempt.notification, wait.at)
    }
    if (noRoom.length === 0) return
    for (const attempt of noRoom) attempt.release()
    queue.giveBack(noRoom.map(({ notification }) => notification))
  }

  /** Tests if the token has ended, the account went out, a hold came, or it has expired. */
  function isOver({ notification, notification: { expiresAt }, lease }: Attempt): boolean {
    const now = clock.now()
    if (expiresAt !== undefined && expiresAt <= now) return true
    return rules.isHeld(notification) || !lease.mayCall(now)
  }

  /** Tests if a preference that was saved since the checks forbids to send it. */
  function isForbidden({ notification, recipient: checked }: Attempt): boolean {
    const recipient = recipients.cached(notification.tenant, notification.to.id)
    if (recipient === checked) return false
    // It was forgotten meanwhile, so it must be read again.
    if (recipient === undefined || rules.suppression(notification, recipient) !== undefined) return true
    return rules.quietAt(notification, recipient, clock.now()) !== undefined
  }

  /** Returns it to its place in the queue: the checks of the next batch decide it. */
  function putBack(attempt: Attempt): void {
    attempt.release()
    queue.giveBack([attempt.notification])
  }

  /** Waits for the instant of the limits: in memory if it is near; else it is scheduled again on record. A duplicate ends. */
  function delay(attempt: Attempt, at: number, isDuplicate = false): void {
    const { notification, recipient, events } = attempt
    if (!ledger.isCurrent(notification)) {
      drop(attempt)
      return
    }
    attempt.release()
    const now = clock.now()
    if (isDuplicate) completer.add(suppressed(notification, events, now, 'duplicate'))
    else if (at - now <= nearMs) scheduler.postpone(notification, Math.min(at, notification.expiresAt ?? at))
    else {
      // It met quiet hours or limits that did not apply when it was reserved.
      const reason = rules.quietAt(notification, recipient, now) ?? 'recipient_limit'
      const policyVersion = rules.policyVersion()
      completer.add(postponed(notification, events, now, { at, reason, policyVersion }))
    }
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
  async function giveUp(attempts: readonly Attempt[], error: unknown): Promise<number> {
    const open = attempts.filter(({ state }) => state !== 'released')
    const isGeneral = concernsAll(error)
    if (!isGeneral && attempts.length > 1) {
      for (const attempt of open) attempt.withdraw()
      const ended = await Promise.allSettled(open.map((attempt) => send([attempt])))
      const failed = ended.find((each) => each.status === 'rejected')
      if (failed !== undefined) throw failed.reason
      return 0
    }
    if (!isGeneral) {
      isolate(attempts[0]!, error)
      return 0
    }
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

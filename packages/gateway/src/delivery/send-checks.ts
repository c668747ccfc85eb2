/**
 * Checks a batch of attempts right before it is sent: is each notification still current, not expired, not opted out,
 * is its recipient connected, can its content be read, and has the recipient's own endpoint a place for the call?
 * Nothing takes effect here but places at endpoints, which the attempts own.
 */
import { SluiceError } from '../errors.ts'
import type { Move } from '../model.ts'
import { mergeFields } from '../policy/preferences.ts'
import type { Clock, Presence } from '../ports.ts'
import type { Contents, Ledger } from '../stages.ts'
import type { Attempt } from './attempt.ts'
import { BatchSize } from './batch-size.ts'
import type { Endpoints, EndpointWait } from './endpoints.ts'
import { createNewestRecipients, type NewestRecipientsOptions } from './newest-recipients.ts'
import { damaged, deadLetter, expired, postponed, suppressed } from './not-sent.ts'
import { type Retries, triedSince } from './retry.ts'
import type { SendRules } from './send-rules.ts'

export interface SendChecksOptions extends NewestRecipientsOptions {
  readonly rules: Pick<SendRules, 'suppression' | 'away'>
  readonly ledger: Pick<Ledger, 'isCurrent'>
  readonly contents: Pick<Contents, 'of'>
  readonly clock: Pick<Clock, 'now'>
  readonly endpoints: Pick<Endpoints, 'enter'>
  readonly retries: Pick<Retries, 'forget'>
}

/** The attempts of a batch by the results of the checks; those of stale notifications are released. */
export interface CheckedBatch {
  /** Attempts that may be sent if the limits admit them. */
  readonly ready: Attempt[]
  readonly ended: { readonly attempt: Attempt; readonly move: Move }[]
  /** Attempts that wait in memory for another account, or their endpoint: for a while, or until a call to it ends. */
  readonly waiting: { readonly attempt: Attempt; readonly wait: EndpointWait }[]
  /** Attempts for which this batch has no room. */
  readonly noRoom: Attempt[]
  /** Attempts that hold a reservation and will not leave now, but may have been sent by another gateway. */
  readonly unused: Attempt[]
}

/** A notification that may leave within this time waits in memory, without a commit, ms. */
export const nearMs = 1_000

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

export function createSendChecks(options: SendChecksOptions) {
  const { rules, store, ledger, recipients, contents, clock, endpoints, retries } = options
  const findRecipients = createNewestRecipients({ rules, store, recipients })

  /** Decides a notification by expiry, opt-out and presence; returns the move if it is not to be sent. */
  function checkedMove(attempt: Attempt, isAway: boolean, { unused }: CheckedBatch): Move | undefined {
    const { notification, recipient } = attempt
    const now = clock.now()
    if (notification.expiresAt !== undefined && notification.expiresAt <= now)
      return expired(notification, attempt.events, now)
    const reason = rules.suppression(notification, recipient)
    if (reason !== undefined) return suppressed(notification, attempt.events, now, reason)
    if (!isAway) return undefined
    unused.push(attempt)
    return rules.away!.moveOf(notification, attempt.events, now)
  }

  /** Asks which recipients are connected; `undefined` where they need not be. */
  function connected(attempts: readonly Attempt[]): ReturnType<Presence['areConnected']> | undefined {
    const { away } = rules
    if (away === undefined || attempts[0]?.notification.channel !== away.channel) return undefined
    return away.presence.areConnected(
      attempts.map(({ notification: { tenant, to } }) => ({ tenant, recipient: to.id })),
    )
  }

  /** Takes a place at the recipient's own endpoint, if it calls one; returns how it must wait where there is none. */
  function enterEndpoint(attempt: Attempt): EndpointWait | undefined {
    const { pool, account, holder } = attempt.lease
    if (pool.provider.endpointOf === undefined) return undefined
    const to = mergeFields(attempt.notification.to, attempt.recipient)
    const endpoint = pool.provider.endpointOf(to, account)
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

  function endDamaged(attempt: Attempt, row: string | undefined, { ended, unused }: CheckedBatch): void {
    ended.push({ attempt, move: damaged(attempt.notification, attempt.events, clock.now(), row) })
    unused.push(attempt)
  }

  return async (attempts: readonly Attempt[]): Promise<CheckedBatch> => {
    const batch: CheckedBatch = { ready: [], ended: [], waiting: [], noRoom: [], unused: [] }
    const sizes = new BatchSize()
    const presence = connected(attempts)
    const present = presence instanceof Promise ? await presence : presence
    const finding = findRecipients(attempts)
    const profiles = finding instanceof Promise ? await finding : finding
    for (let index = 0; index < attempts.length; index += 1) {
      const attempt = attempts[index]!
      const { notification } = attempt
      if (!ledger.isCurrent(notification)) {
        retries.forget(notification.id)
        attempt.release()
        continue
      }
      const recipient = profiles[index]!
      if (recipient instanceof Error) {
        endDamaged(attempt, ifDamaged(recipient).row, batch)
        continue
      }
      attempt.recipient = recipient
      const move = checkedMove(attempt, present?.[index] === false, batch)
      if (move !== undefined) {
        batch.ended.push({ attempt, move })
        continue
      }
      if (sizes.isFull) {
        batch.noRoom.push(attempt)
        continue
      }
      const found = contents.of(notification)
      const payload = found instanceof Promise ? await found.catch(ignoreMissing) : found
      if (payload instanceof SluiceError) {
        endDamaged(attempt, payload.row, batch)
        continue
      }
      attempt.payload = payload
      const wait = attempt.exchangeLease() ?? enterEndpoint(attempt)
      if (wait === undefined) {
        sizes.add(notification)
        batch.ready.push(attempt)
      } else if (wait.at === undefined || wait.at - clock.now() <= nearMs)
        batch.waiting.push({ attempt, wait })
      else {
        batch.ended.push({ attempt, move: paused(attempt, wait.origin, wait.at) })
        batch.unused.push(attempt)
      }
    }
    return batch
  }
}

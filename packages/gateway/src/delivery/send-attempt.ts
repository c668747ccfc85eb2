/**
 * One call to a provider: renders the message, sends it within its timeout, and reports the result to the account,
 * the retries, and the completer. Callbacks instead of async/await on purpose: promises per call measured more than
 * the call itself.
 */
import type { Payload } from '../content.ts'
import type { Move, Notification, Recipient } from '../model.ts'
import type { Clock, Message, SendResult } from '../ports.ts'
import type { Attempted, Ledger, RecipientLimiter } from '../stages.ts'
import type { ChannelWorker } from './channel-worker.ts'
import type { Completer } from './completer.ts'
import { createDeadlines, type Deadline } from './deadline.ts'
import type { EndpointPlace } from './endpoints.ts'
import type { InFlightCounter } from './in-flight-counter.ts'
import type { InFlightSend, InFlightSends } from './in-flight-sends.ts'
import { type Composer, compose } from './message.ts'
import type { Lease } from './pools/lease.ts'
import type { Retries } from './retry.ts'
import { retryAfterOnLine } from './retry-policy.ts'

export interface SendAttemptsOptions {
  readonly ledger: Pick<Ledger, 'live'>
  readonly limiter: Pick<RecipientLimiter, 'left' | 'cancel'>
  readonly composer: Composer
  readonly clock: Clock
  readonly inFlightSends: InFlightSends
  readonly retries: Retries
  readonly completer: Completer
  readonly inFlight: InFlightCounter
  /** Computes the next state of the notification from the answer. */
  readonly settle: (attempted: Attempted) => Move
  readonly onError: (what: string, error: unknown) => void
}

/** A notification whose limits were fired, with the lease for its call. */
export interface Fired {
  readonly notification: Notification
  /** The whole content; absent if it is gone from the record. */
  readonly payload: Payload | undefined
  readonly recipient: Recipient | null
  readonly lease: Lease
  readonly firedAt: number
  /** Its place at the recipient's own endpoint, if it calls one. */
  readonly place?: EndpointPlace | undefined
}

export interface SendAttempts {
  begin(worker: ChannelWorker, fired: Fired): void
}

export function createSendAttempts(options: SendAttemptsOptions): SendAttempts {
  const deadlineOf = createDeadlines(options.clock)

  return {
    begin(worker, fired) {
      options.inFlight.begin()
      const { pool } = fired.lease
      const tells = pool.provider.tellsWritten === true
      const inFlightSend = options.inFlightSends.begin({ ...fired, tells })
      const attempt = new SendAttempt(options, worker, inFlightSend, fired.place)
      let message: Message
      try {
        if (fired.payload === undefined) throw new Error('Its content is not on record any more.')
        message = compose(options.composer, fired.notification, fired.payload, fired.recipient)
      } catch (error) {
        attempt.answered({ outcome: 'rejected', invalidAddress: false, detail: (error as Error).message })
        return
      }
      attempt.send(message, deadlineOf(pool.timeoutMs), tells)
    },
  }
}

class SendAttempt {
  readonly #options: SendAttemptsOptions
  readonly #worker: ChannelWorker
  readonly #inFlightSend: InFlightSend
  readonly #place: EndpointPlace | undefined

  constructor(
    options: SendAttemptsOptions,
    worker: ChannelWorker,
    inFlightSend: InFlightSend,
    place: EndpointPlace | undefined,
  ) {
    this.#options = options
    this.#worker = worker
    this.#inFlightSend = inFlightSend
    this.#place = place
  }

  send(message: Message, deadline: Deadline, tells: boolean): void {
    const inFlightSend = this.#inFlightSend
    const { provider } = inFlightSend.lease.pool
    const failed = (error: unknown): void => {
      deadline.end()
      this.#options.onError(`provider ${provider.name}`, error)
      this.answered({ outcome: 'failed', detail: (error as Error).message })
    }
    try {
      provider
        .send(
          message,
          inFlightSend.lease.account,
          deadline.signal,
          tells ? () => inFlightSend.leave() : undefined,
        )
        .then((result) => {
          deadline.end()
          this.answered(result)
        }, failed)
    } catch (error) {
      failed(error)
    }
  }

  answered(answer: SendResult): void {
    const { lease, notification } = this.#inFlightSend
    const { clock, completer, onError } = this.#options
    try {
      const now = clock.now()
      const result = retryAfterOnLine(answer, clock.aheadMs?.() ?? 0)
      this.#inFlightSend.end()
      const tookMs = now - this.#inFlightSend.at
      lease.judge(now, result, tookMs)
      this.#place?.end(now, result, tookMs)
      const move = this.#options.settle(this.#attempted(result, now))
      if (move.after.suspects === notification.suspects) completer.add(move, () => this.#settled(move))
      else this.#settleSuspicion(move)
    } catch (error) {
      onError('settle', error)
      this.#end()
    }
  }

  #attempted(result: SendResult, now: number): Attempted {
    const { notification, lease, at } = this.#inFlightSend
    const { provider } = lease.pool
    const { ledger, retries } = this.#options
    return {
      notification,
      events: ledger.live(notification.id)?.events ?? [],
      result,
      provider: provider.name,
      account: lease.account.id,
      firedAt: at,
      now,
      idempotent: provider.idempotent,
      retry: retries.retryOf(this.#worker.route, notification, result, lease, now),
    }
  }

  /** Counts a call that may have arrived under an id of its own; a retry fires the limits again. */
  #settleSuspicion(move: Move): void {
    const { limiter, completer, onError } = this.#options
    const { before, after } = move
    const { recipient } = this.#inFlightSend
    const suspect = { ...before, id: `${before.id}?${after.suspects!.length - 1}` }
    limiter
      .left({ notification: suspect, recipient })
      .then(async () => {
        if (after.status === 'dead') await limiter.cancel([{ notification: before, recipient }])
      })
      .catch((error) => onError('count what may have arrived', error))
      .finally(() => completer.add(move, () => this.#settled(move)))
  }

  #settled({ after }: Move): void {
    if (after.status === 'dead') this.#worker.automaticRedrive.note(after.priority)
    this.#end()
  }

  #end(): void {
    this.#inFlightSend.lease.end()
    this.#options.inFlight.end()
    this.#worker.freed()
  }
}

/**
 * One attempt to hand a notification to its provider. It owns what it holds meanwhile: the lease of an account, the
 * right to send (`Ledger.begin`), and a place at the recipient's own endpoint. `release` gives all of it back, in this
 * one place. The reservation in the limits belongs to the notification: it outlives an attempt that is released.
 *
 *          begin         fire          send         answer, commit
 *   leased ─────► begun ─────► fired ──────► sent ────────────────► settled
 *      └────────────┴────────────┴────────────┴─► released
 *
 * A call that was sent is released where its bytes came too late to leave: nothing was written, and it is sent again.
 *
 * Listeners hear of each attempt that has finished: settled or released. Callbacks instead of async/await on purpose:
 * promises per call measured more than the call itself.
 */
import type { Payload } from '../content.ts'
import type { Move, Notification, Recipient, TimelineEvent } from '../model.ts'
import type { Clock, Message, SendResult } from '../ports.ts'
import type { Ledger, RecipientLimiter } from '../stages.ts'
import { lateMsMax } from './accounts/counted-lease.ts'
import type { Completer, SettledListener } from './completer.ts'
import type { Deadline } from './deadline.ts'
import type { EndpointPlace, EndpointWait } from './endpoints.ts'
import type { InFlightCounter } from './in-flight-counter.ts'
import type { InFlightSend, InFlightSends } from './in-flight-sends.ts'
import { countAnew, countSuspect } from './late-count.ts'
import { type Composer, compose } from './message.ts'
import { moveAfterCall } from './outcome.ts'
import type { Lease } from './pools/lease.ts'
import type { Route } from './pools/route.ts'
import type { Retries } from './retry.ts'
import { retryAfterOnLine } from './retry-policy.ts'

/** The parts that the attempts of a channel share. */
export interface AttemptContext {
  readonly route: Route
  readonly ledger: Pick<Ledger, 'live' | 'mark'>
  readonly limiter: Pick<RecipientLimiter, 'countAsSent' | 'cancel'>
  readonly composer: Composer
  readonly clock: Clock
  /** Gives the deadline of a call that begins now. */
  readonly deadlineOf: (timeoutMs: number) => Deadline
  /** Calls that are not written yet. */
  readonly inFlightSends: InFlightSends
  readonly retries: Retries
  readonly completer: Pick<Completer, 'add'>
  /** Counts attempts that have not finished. */
  readonly inFlight: InFlightCounter
  /** Called with each attempt that has finished. */
  readonly listeners: readonly ((attempt: Attempt) => void)[]
  readonly onError: (what: string, error: unknown) => void
}

export type AttemptState = 'leased' | 'begun' | 'fired' | 'sent' | 'settled' | 'released'

export class Attempt implements SettledListener, InFlightSend {
  readonly notification: Notification
  lease: Lease
  recipient: Recipient | null = null
  /** The whole content; absent if it is gone from the record, and after the message was composed. */
  payload: Payload | undefined
  /** Its place at the recipient's own endpoint, if it calls one. */
  place: EndpointPlace | undefined
  /** The instant at which it counts in the limits: fired, or written if that was later. */
  firedAt = 0
  /** The instant at which the limits have counted it: `firedAt`, or an earlier one while they are being told. */
  countsAt = 0
  /** The result of its call; absent where no call was made. */
  move: Move | undefined
  readonly #context: AttemptContext
  #state: AttemptState = 'leased'
  #deadline: Deadline | undefined
  /** True from the call until its last byte is on the socket and counted, where the provider reports that. */
  #isTracked = false
  #writtenAt: number | undefined
  #wasTooLate = false
  #isAnswered = false
  /** True if the provider has got its envelope. */
  #isUnderWay = false
  /** The end of its right to send, an instant of `Clock.monotonic`. */
  #until = Number.POSITIVE_INFINITY
  /** Resolves when the limits have been told of a late call; its result is not settled before. */
  #counting: Promise<void> | undefined

  constructor(context: AttemptContext, notification: Notification, lease: Lease) {
    this.#context = context
    this.notification = notification
    this.lease = lease
  }

  get state(): AttemptState {
    return this.#state
  }

  /** True if its bytes came too late and were not written: the notification is to be sent again. */
  get wasTooLate(): boolean {
    return this.#wasTooLate
  }

  /** Events in memory that are not yet on record: it was queued, it was handed over. */
  get events(): readonly TimelineEvent[] {
    return this.#context.ledger.live(this.notification.id)?.events ?? []
  }

  /** Leaves the account that has just failed it for another one; returns until when it waits for that. */
  exchangeLease(): EndpointWait | undefined {
    return this.#context.retries.exchangeLease(this.#context.route, this, this.#context.clock.now())
  }

  /** Records that it has the right to send: from now on the notification is neither cancelled nor expired. */
  begun(until: number): void {
    this.#until = until
    this.#state = 'begun'
  }

  /** Records that the limits counted it; false if the notification is no longer current. */
  fired(at: number): boolean {
    this.#state = 'fired'
    this.firedAt = at
    this.countsAt = at
    return this.#context.ledger.mark(this.notification, 'sending')
  }

  /** Goes back to its beginning and keeps its lease. */
  withdraw(): void {
    this.place?.undo(this.#context.clock.now())
    this.place = undefined
    if (this.#state !== 'leased') this.#context.ledger.mark(this.notification, 'queued')
    this.#state = 'leased'
  }

  /** Gives back what it holds, for no call is made. Does nothing after it was sent or released. */
  release(): void {
    if (this.#state === 'sent' || this.#state === 'settled' || this.#state === 'released') return
    this.withdraw()
    this.lease.undo()
    this.#finish('released')
  }

  /** Renders the message and hands it to the provider. The result goes to the account, the retries and the completer. */
  send(): void {
    const { retries, composer, inFlightSends, deadlineOf } = this.#context
    retries.called(this.notification, this.lease, this.firedAt)
    this.#state = 'sent'
    const { pool, account } = this.lease
    const tells = pool.provider.tellsWritten === true
    this.#isTracked = tells
    if (tells) inFlightSends.add(this)
    let message: Message
    try {
      if (this.payload === undefined) throw new Error('Its content is not on record any more.')
      message = compose(composer, this.notification, this.payload, this.recipient)
    } catch (error) {
      this.#answered({ outcome: 'rejected', invalidAddress: false, detail: (error as Error).message })
      return
    }
    // It is not kept for as long as the call lasts.
    this.payload = undefined
    const deadline = deadlineOf(pool.timeoutMs)
    this.#deadline = deadline
    try {
      pool.provider
        .send(message, account, deadline.signal, tells ? (part) => this.#written(part) : undefined)
        .then(
          (result) => this.#answered(result),
          (error) => this.#failed(error),
        )
    } catch (error) {
      this.#failed(error)
    }
  }

  /** Counts it as written now if that is later than it counts so far; resolves when it is counted. */
  countLate(now: number): Promise<void> | undefined {
    const at = this.#writtenAt ?? now
    return at - this.countsAt <= lateMsMax ? undefined : this.countAt(at)
  }

  /** Counts it at this instant, or later if that was asked for before; resolves when it is counted. */
  countAt(at: number): Promise<void> {
    this.firedAt = Math.max(this.firedAt, at)
    this.#counting ??= countAnew(this.#context, this).then(() => {
      this.#counting = undefined
      if (this.#writtenAt !== undefined) this.#stopTracking()
    })
    return this.#counting
  }

  /** Called by the completer when its result is on record or is obsolete. */
  settled(): void {
    this.lease.end()
    this.#finish('settled')
  }

  /** Called by the provider just before the last bytes are written; false if they may not leave any more. */
  #written(part?: 'envelope'): boolean | Promise<boolean> {
    const { clock, inFlightSends } = this.#context
    const now = clock.now()
    // The provider may take longer to answer an envelope than a right lasts.
    const isOver = (part === 'envelope' || !this.#isUnderWay) && clock.monotonic() > this.#until
    if (isOver || !inFlightSends.mayLeave(this) || !this.lease.mayLeave(now)) return this.#refuse()
    if (part === 'envelope') {
      this.#isUnderWay = true
      return true
    }
    const counted = inFlightSends.countBefore(this)
    if (counted !== undefined)
      return counted.then((isCounted) => !this.#isAnswered && (isCounted ? this.#written() : this.#refuse()))
    this.#writtenAt = now
    this.lease.left(now)
    // While the limits are being told, it is not forgotten here.
    if (this.countLate(now) === undefined) this.#stopTracking()
    return true
  }

  #refuse(): false {
    // An earlier try of the adapter may have been written: then its account has counted a call.
    this.#wasTooLate = this.#writtenAt === undefined
    return false
  }

  #stopTracking(): void {
    if (!this.#isTracked) return
    this.#isTracked = false
    this.#context.inFlightSends.remove(this)
  }

  #failed(error: unknown): void {
    this.#context.onError(`provider ${this.lease.pool.provider.name}`, error)
    this.#answered({ outcome: 'failed', detail: (error as Error).message })
  }

  #answered(answer: SendResult): void {
    const { route, clock, retries, onError } = this.#context
    const { notification } = this
    const lease = this.lease
    this.#isAnswered = true
    try {
      this.#deadline?.end()
      if (this.#counting === undefined) this.#stopTracking()
      if (this.#wasTooLate && answer.outcome === 'failed') {
        this.#giveUp()
        return
      }
      this.#wasTooLate = false
      const now = clock.now()
      const result = retryAfterOnLine(answer, clock.aheadMs?.() ?? 0)
      const tookMs = now - this.firedAt
      lease.judge(now, result, tookMs)
      this.place?.end(now, result, tookMs)
      const retry = retries.retryOf(route, notification, result, lease, now)
      const move = moveAfterCall(this, result, retry, now)
      this.move = move
      const counting = this.#counting
      if (counting === undefined) this.#settle(move)
      else void counting.then(() => this.#settle(move))
    } catch (error) {
      onError('settle', error)
      this.settled()
    }
  }

  /** Gives back what it holds: nothing was written. */
  #giveUp(): void {
    const release = (): void => {
      this.#stopTracking()
      this.#state = 'fired'
      this.release()
    }
    if (this.#counting === undefined) release()
    else void this.#counting.then(release)
  }

  #settle(move: Move): void {
    this.#stopTracking()
    const { completer } = this.#context
    if (move.after.suspects === this.notification.suspects) completer.add(move, this)
    else void countSuspect(this.#context, move, this.recipient).then(() => completer.add(move, this))
  }

  #finish(state: 'settled' | 'released'): void {
    this.#state = state
    for (const listener of this.#context.listeners) listener(this)
    this.#context.inFlight.end()
  }
}

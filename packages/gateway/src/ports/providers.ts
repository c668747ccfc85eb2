/**
 * The ports towards providers as interfaces: accounts, messages, send results, account state that survives a restart,
 * and alerts. Other modules import them from ports.ts.
 */
import type { Channel, Content, JsonObject, Priority, RecipientFields } from '../model.ts'

export interface Account {
  readonly id: string
  readonly url?: string
  /** Never logged, never returned in a response. */
  readonly secret?: string
  readonly options: JsonObject
}

/** A message for a provider: rendered, addressed, and ready to send. */
export interface Message {
  readonly id: string
  readonly tenant: string
  readonly channel: Channel
  readonly category: string
  readonly to: RecipientFields
  readonly content: Content
  readonly data?: JsonObject
  readonly attempt: number
  readonly priority?: Priority
  /**
   * The instant from which the message is useless, epoch ms: services that keep it for an offline device drop it
   * then.
   */
  readonly expiresAt?: number
  /** A one-click unsubscribe address (RFC 8058), where the gateway has a public address. */
  readonly unsubscribeUrl?: string
}

/**
 * Backoff profile of a failed send. `greylisting`: the recipient's server asks to retry in minutes. `outage`: the
 * service behind the provider is down, possibly for hours. Absent: the pool's ordinary backoff.
 */
type RetryKind = 'greylisting' | 'outage'

export type SendResult =
  | { readonly outcome: 'delivered'; readonly providerMessageId?: string; readonly detail?: string }
  /** The account is over its rate limit. `retryAfter` as the provider wrote it: seconds or an HTTP date. */
  | {
      readonly outcome: 'rate_limited'
      readonly retryAfter?: string
      readonly detail: string
      /**
       * The recipient's own endpoint (as `endpointOf` names it) that answered with the rate limit: it alone is
       * blocked, the account is untouched.
       */
      readonly endpoint?: string
    }
  /** The send failed because of the notification itself; the result says nothing about the account. */
  | {
      readonly outcome: 'rejected'
      /** The address reaches no recipient any more. Not set where the account's configuration may be the reason. */
      readonly invalidAddress: boolean
      readonly detail: string
      /**
       * The instant since which the address is invalid, epoch ms, where the service says it: an address that was
       * stored later is a new one.
       */
      readonly invalidSince?: number
    }
  /** The account's fault (5xx, time-out before an answer, no connection); nothing was delivered, unless `unheard`. */
  | {
      readonly outcome: 'failed'
      readonly detail: string
      /** The call had left and no answer came: the recipient may have got it, and it counts besides its repetition. */
      readonly maybeDelivered?: boolean
      /** It is the recipient who could not be reached: says nothing about the account. */
      readonly recipientFault?: boolean
      /** The recipient's own endpoint that failed, or its origin: its failures are counted there, not at the account. */
      readonly endpoint?: string
      /** It concerns this account and this recipient together: another account may carry it, and is asked at once. */
      readonly pair?: boolean
      /** Where the ordinary backoff would give up too early. */
      readonly retry?: RetryKind
      /** The service's Retry-After: seconds or an HTTP date, as it wrote it. */
      readonly retryAfter?: string
    }
  /** It may or may not have been delivered. */
  | {
      readonly outcome: 'unknown'
      readonly detail: string
      /** The recipient's own endpoint that did not answer: it is counted there, not at the account. */
      readonly endpoint?: string
    }

/**
 * Called just before the last bytes of a call are written; answers false if they may not be written any more. It answers
 * later where the limits are to count a late call before it is written: the bytes wait for that. A provider that speaks with
 * the other side before them also asks with `envelope`, just before the first bytes, and is answered at once.
 */
export type OnWritten = (part?: 'envelope') => boolean | Promise<boolean>

export interface Provider {
  readonly name: string
  /** True if the provider deduplicates retries by the notification id. */
  readonly idempotent: boolean
  readonly channels: readonly Channel[]
  /**
   * Names the recipient's own endpoint that a send from this account would reach, as an origin, or as an address
   * without its query where one host serves several independent endpoints. Absent: the account calls its own service.
   */
  endpointOf?(to: RecipientFields, account: Account): string | undefined
  /** True if `send` calls `onWritten`. @defaultValue false: a send counts as written when it is called */
  readonly tellsWritten?: boolean
  /**
   * Sends a message. Never rejects for a provider's fault; `signal` aborts at the deadline. `onWritten` is called
   * just before the last bytes are written, where the adapter knows that moment: before it the provider cannot have
   * counted the call. Where it answers false the call comes too late: the adapter does not write these bytes, so that
   * nothing is sent, and the result is `failed`.
   */
  send(message: Message, account: Account, signal: AbortSignal, onWritten?: OnWritten): Promise<SendResult>
  /** Limits the concurrent sends of an account from now on; connections may be opened or closed to match. */
  resize?(account: Account, concurrency: number): void
  /** Opens connections in advance, so that a first message does not wait for them. */
  warm?(account: Account): Promise<void>
  close(): Promise<void>
}

/** Recent calls of an account that windows of its rate limit may still count. */
export interface UseRecord {
  /** Calls grouped by the instant (epoch ms) at which the last of each group counts, in the order of the instants. */
  readonly calls: readonly (readonly [at: number, count: number])[]
  /** The number of further calls that may have been made, or be in flight, and are not in this record. */
  readonly ahead: number
  /** The time for which a call counts, ms. */
  readonly windowMs: number
}

/** The state of a provider's account that survives a restart; a record without any of it removes the row. */
export interface AccountRecord {
  readonly channel: Channel
  readonly provider: string
  readonly account: string
  /** The end of a block that a 429 caused. */
  readonly blockedUntil?: number
  /** The instant at which it went out, while it is blocked or its breaker is not closed. */
  readonly outSince?: number
  /** The state of a breaker that is not closed. */
  readonly breaker?: { readonly openUntil: number; readonly coolDownMs: number }
  /** The usage of the account's long windows. */
  readonly use?: UseRecord
}

/** An event that an operator may have to look at. */
export type Alert = AccountAlert | ComplaintAlert

interface AlertCommon {
  readonly id: string
  readonly at: number
  /** The end of the time for which an open alert is not repeated, or of a pause by estimate. */
  readonly until?: number
}

interface AccountAlert extends AlertCommon {
  readonly type: 'account.opened' | 'account.closed'
  readonly channel: Channel
  readonly provider: string
  readonly account: string
}

/** A category of a tenant pauses because of complaints, or goes on. */
interface ComplaintAlert extends AlertCommon {
  readonly type: 'complaints.paused' | 'complaints.resumed'
  readonly tenant: string
  readonly category: string
  readonly delivered: number
  readonly complained: number
  /** The lower bound of the rate of complaints, from 0 to 1. */
  readonly bound: number
}

export interface Alerts {
  /** Sends an alert. Never rejects; an alert that cannot be delivered in time is dropped and logged. */
  send(alert: Alert): void
  close(): Promise<void>
}

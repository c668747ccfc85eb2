/**
 * The edge towards providers as interfaces: accounts, what they are asked to carry, what they answer, what is to be
 * known of them after a restart, and who is told when one fails. Everybody has them from ports.ts.
 */
import type { Channel, Content, JsonObject, Priority, RecipientFields } from './model.ts'

export interface Account {
  readonly id: string
  readonly url?: string
  /** Never logged, never answered. */
  readonly secret?: string
  readonly options: JsonObject
}

/** What a provider is asked to carry: rendered, addressed, and ready. */
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
  /** From this instant on it is of no use, epoch ms: services that keep it for a device that is away drop it then. */
  readonly expiresAt?: number
  /** Where one click ends such mail, where the gateway has a public address (RFC 8058). */
  readonly unsubscribeUrl?: string
}

/**
 * How patiently a failed call is repeated. `greylisting`: the recipient's server asks to come back in minutes.
 * `outage`: the service behind is away, and may be for hours. Absent: the pool's ordinary backoff.
 */
export type RetryKind = 'greylisting' | 'outage'

export type SendResult =
  | { readonly outcome: 'delivered'; readonly providerMessageId?: string; readonly detail?: string }
  /** The account is over its rate. `retryAfter` as the provider wrote it: seconds or an HTTP date. */
  | {
      readonly outcome: 'rate_limited'
      readonly retryAfter?: string
      readonly detail: string
      /** The recipient's own endpoint (as `endpointOf` names it) that said so: it alone is blocked, the account is untouched. */
      readonly endpoint?: string
    }
  /** The notification's own fault; says nothing about the account. */
  | {
      readonly outcome: 'rejected'
      /** Nobody is reached at this address any more. Not where the account's configuration may be the reason. */
      readonly invalidAddress: boolean
      readonly detail: string
      /** Since when, epoch ms, where the service says it: an address that was given later is a new one. */
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
      /** When the service said to come back: seconds or an HTTP date, as it wrote it. */
      readonly retryAfter?: string
    }
  /** It may or may not have been delivered. */
  | {
      readonly outcome: 'unknown'
      readonly detail: string
      /** The recipient's own endpoint that did not answer: it is counted there, not at the account. */
      readonly endpoint?: string
    }

export interface Provider {
  readonly name: string
  /** Whether the provider drops a repetition with the same notification id. */
  readonly idempotent: boolean
  readonly channels: readonly Channel[]
  /**
   * The recipient's own endpoint that a call of this account would reach, as an origin, or an address without its query
   * where what answers there is not the host's matter. Absent: the account calls its own service.
   */
  endpointOf?(to: RecipientFields, account: Account): string | undefined
  /** Whether `send` calls `leaving`. @defaultValue false: a call leaves as it is made */
  readonly tellsWritten?: boolean
  /**
   * Never rejects for what a provider may do; `signal` aborts at the deadline. `leaving` is called just before the
   * last bytes are written, where the adapter knows that moment: before it the provider cannot have counted the call.
   */
  send(message: Message, account: Account, signal: AbortSignal, onWritten?: () => void): Promise<SendResult>
  /** So many calls at once at most from now on: connections may follow. */
  resize?(account: Account, concurrency: number): void
  /** Opens what a first message would wait for. */
  warm?(account: Account): Promise<void>
  close(): Promise<void>
}

/** Calls of an account that windows of its rate may still count. */
export interface UseRecord {
  /** So many calls, the last of which counts at this instant (epoch ms). In the order of the instants. */
  readonly calls: readonly (readonly [at: number, count: number])[]
  /** So many besides may have been made, or be under way, unseen by this record. */
  readonly ahead: number
  /** For so long a call counts. */
  readonly windowMs: number
}

/** What is to be known of a provider's account after a restart; without any of it there is nothing to be known. */
export interface AccountRecord {
  readonly channel: Channel
  readonly provider: string
  readonly account: string
  /** A 429 said so. */
  readonly blockedUntil?: number
  /** Its breaker is not closed. */
  readonly breaker?: { readonly openUntil: number; readonly coolDownMs: number }
  /** How its long windows stand. */
  readonly use?: UseRecord
}

/** Something that a recipient may have to look at. */
export interface Alert {
  readonly id: string
  readonly type: 'account.opened' | 'account.closed'
  readonly at: number
  readonly channel: Channel
  readonly provider: string
  readonly account: string
  /** Until when an open one is left alone. */
  readonly until?: number
}

export interface Alerts {
  /** Never rejects; what cannot be told in time is dropped and logged. */
  send(alert: Alert): void
  close(): Promise<void>
}

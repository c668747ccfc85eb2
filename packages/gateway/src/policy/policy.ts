/**
 * A compiled policy. It is made once from the policy's document (compile.ts) and is pure: the same notification
 * always gets the same limits, digest and quiet hours.
 */
import type { Limit, QuietSpec } from '@sluice/limits'
import type { Channel, JsonObject, Priority, Recipient, RecipientFields } from '../model.ts'
import type { Countable, Subject } from '../ports.ts'
import type { ComplaintRules } from './complaint-guard.ts'

/** The outcome for a notification that a limit does not admit. */
export type Over =
  | { readonly kind: 'delay' }
  | { readonly kind: 'drop' }
  | { readonly kind: 'digest'; readonly digest: string }
  | { readonly kind: 'fallback'; readonly channel: Channel }

/**
 * The outcome for a notification while the server of the limits does not answer: accepted undecided and decided when it
 * answers again, refused, or decided and sent by the one process that keeps the limits of all meanwhile.
 */
export type StateLost = 'hold' | 'refuse' | 'share'

export interface DigestSpec {
  readonly name: string
  readonly windowMs: number
  readonly minItems: number
  readonly maxItems: number
  readonly template: string
}

/** The limits of one notification that share a subject, and so are checked in one call. */
export interface SubjectRules {
  readonly subject: Subject
  readonly rules: readonly Limit[]
}

export interface QuietRule {
  readonly reason: 'quiet_hours' | 'legal_hours'
  readonly spec: QuietSpec
}

export interface Policy {
  /** Changes when, and only when, the meaning of the document changes. */
  readonly version: string
  /** The name by which reports call it; absent where the document has none. */
  readonly name?: string
  /** The document with its defaults filled in. */
  readonly document: JsonObject
  readonly maxDelayMs: number
  /** Returns what becomes of a category while the server of the limits does not answer; undefined is the default of all. */
  onStateLost(category: string | undefined): StateLost
  /**
   * The categories that are shared while the server of the limits does not answer: these, or all but these; undefined where
   * none is.
   */
  readonly shared: { readonly categories: readonly string[]; readonly areListed: boolean } | undefined
  /** Absent: duplicates pass. */
  readonly deduplicationWindowMs: number | undefined
  /** The rules of the complaint guard. Absent: complaints stop nothing. */
  readonly complaints: ComplaintRules | undefined
  /** Notifications that wait for the end of quiet hours are spread over this long after it. */
  readonly spreadMs: number
  /** The longest window of any limit: older admissions cannot matter. */
  readonly longestWindowMs: number
  /** The shortest window or distance of any limit, ms; infinite where there is none. */
  readonly shortestWindowMs: number
  /** True where a limit counts what it refuses. */
  readonly countsRefused: boolean
  /**
   * The selectors of the limits, a row for each combination that one of them names: to list limits that no
   * notification has met yet.
   */
  readonly selectors: readonly {
    readonly channel?: Channel
    readonly category?: string
    readonly template?: string
  }[]
  /**
   * Returns every limit that counts the notification, by subject; the recipient's subject comes last, and is
   * always there. The recipient's stored addresses matter to limits per address, where the notification brings
   * none.
   */
  rulesFor(notification: Countable, recipient?: RecipientFields | null): readonly SubjectRules[]
  /** Returns the outcome when these limits refuse: drop before digest before fallback before delay. */
  strongest(limits: readonly string[]): { readonly limit: string; readonly over: Over }
  /** Returns the digest that collects this notification whatever the limits allow. Never for critical ones. */
  digestFor(
    notification: Pick<Countable, 'channel' | 'category' | 'template' | 'module' | 'priority'>,
  ): DigestSpec | undefined
  digest(name: string): DigestSpec | undefined
  /** In the order of the document. */
  readonly digests: readonly DigestSpec[]
  /**
   * Returns the quiet hours of this recipient on this channel, in their time zone; legal ones in every zone of
   * their phone's country code where nothing better is known. Empty for critical notifications.
   */
  quietFor(
    notification: { readonly channel: Channel; readonly category: string; readonly priority: Priority },
    recipient: Pick<Recipient, 'timeZone' | 'quietHours' | 'phone'>,
  ): readonly QuietRule[]
}

/**
 * The interface of a form: how one provider's webhooks are authenticated, and what their events are in our words.
 * docs/guides/feedback.md has the sources.
 */
import { timingSafeEqual } from 'node:crypto'
import type { Report } from '../report.ts'

/** A call of a provider's webhook, as it arrived. */
export interface WebhookCall {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  readonly body: Buffer
  /** The public address under which the provider called, with its query. */
  readonly url: string
}

export type WebhookVerdict =
  /** With a `token` the call is authentic once: whoever repeats it may have another body. */
  | { readonly kind: 'events'; readonly reports: readonly Report[]; readonly token?: string }
  /** The call is not the provider's own, or it is too old, or was there before. */
  | { readonly kind: 'refused'; readonly reason: RefusalReason }
  /** The call is the provider's, and what it says is not of its form. */
  | { readonly kind: 'malformed'; readonly detail: string }

export const refusalReasons = ['signature', 'stale', 'replayed', 'foreign'] as const
export type RefusalReason = (typeof refusalReasons)[number]

/** Reads one call. Rejects where the certificate of a signature cannot be fetched now. */
export type WebhookForm = (call: WebhookCall, now: number) => WebhookVerdict | Promise<WebhookVerdict>

export const refused = (reason: RefusalReason): WebhookVerdict => ({ kind: 'refused', reason })
export const malformed = (detail: string): WebhookVerdict => ({ kind: 'malformed', detail })
export const events = (reports: readonly Report[]): WebhookVerdict => ({ kind: 'events', reports })

/** The longest age of a signature that is made for each call, ms: Standard Webhooks and Stripe allow as much. */
const freshMs = 300_000

export const isFresh = (at: number, now: number): boolean => Math.abs(now - at) <= freshMs

/** Compares in a time that does not depend on where the texts differ. */
export function isSameSecret(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}

export function headerOf({ headers }: WebhookCall, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : undefined
}

export type JsonRecord = Readonly<Record<string, unknown>>

export const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export const recordOf = (value: unknown): JsonRecord => (isRecord(value) ? value : {})
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** Parses JSON; undefined where it is none. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/** Reads an instant in ISO 8601; `now` where there is none. */
export function instantOf(value: unknown, now: number): number {
  const at = typeof value === 'string' ? Date.parse(value) : Number.NaN
  return Number.isFinite(at) ? at : now
}

/** Reads an instant in Unix seconds; `now` where there is none. */
export function secondsOf(value: unknown, now: number): number {
  const at =
    typeof value === 'number' || (typeof value === 'string' && value !== '') ? Number(value) : Number.NaN
  return Number.isFinite(at) && Math.abs(at) < 1e11 ? Math.round(at * 1_000) : now
}

/** Leaves out fields without a value. */
export function defined<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never
}

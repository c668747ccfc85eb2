/** The edge of the store by which limiter state is rebuilt; the store answers it with `admissions` and `inThrottleQueue`. */
import type { Notification } from './model.ts'

/** What limits select and count by. */
export type Countable = Pick<
  Notification,
  'tenant' | 'module' | 'to' | 'channel' | 'category' | 'priority' | 'template' | 'actor' | 'actors'
>

/** What limiter state is rebuilt from: a notification that was sent, may have been sent, or holds an instant. */
export type Admission = Pick<
  Notification,
  | 'id'
  | 'tenant'
  | 'module'
  | 'to'
  | 'channel'
  | 'category'
  | 'priority'
  | 'template'
  | 'actor'
  | 'actors'
  | 'status'
  | 'dueAt'
  | 'createdAt'
  | 'firedAt'
  | 'suspects'
  | 'fingerprint'
  | 'undecided'
  | 'expiresAt'
  | 'digestId'
> & {
  /** When it counted for the limits of its tenant and module, where it did: see `countedAt` in model.ts. */
  readonly countedAt?: number
  /** The place in the line before these limits that it was promised, while it stands there. */
  readonly promisedAt?: number
  /** The policy under which it was decided last. */
  readonly policyVersion: string
}

export interface AdmissionQuery {
  readonly tenant: string
  /** Absent: of the whole tenant, but for those that stand in a line (`inThrottleQueue`). */
  readonly recipient?: string
  /** Those created, sent or due at this instant or later; of a tenant those created or let through its limits since. */
  readonly since: number
  /** The newest so many. */
  readonly limit: number
}

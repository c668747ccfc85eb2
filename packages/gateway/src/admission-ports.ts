/** The store's port for rebuilding limiter state; the store answers it with `admissions` and `inThrottleQueue`. */
import type { Notification } from './model.ts'

/** The fields that limits select and count by. */
export type Countable = Pick<
  Notification,
  'tenant' | 'module' | 'to' | 'channel' | 'category' | 'priority' | 'template' | 'actor' | 'actors'
>

/** A notification from which limiter state is rebuilt: it was sent, may have been sent, or holds an instant. */
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
  /**
   * The instant at which it counted for the limits of its tenant and module, if it did: see `countedAt` in model.ts.
   */
  readonly countedAt?: number
  /** The slot in the throttle queue that it was promised, while it stands there. */
  readonly promisedAt?: number
  /** The policy version under which it was last decided. */
  readonly policyVersion: string
}

export interface AdmissionQuery {
  readonly tenant: string
  /** Absent: all recipients of the tenant, except notifications in a throttle queue (`inThrottleQueue`). */
  readonly recipient?: string
  /**
   * Selects notifications created, sent or due at this instant or later; for a tenant, those created or admitted
   * through its limits since.
   */
  readonly since: number
  /** The maximum number of notifications, newest first. */
  readonly limit: number
}

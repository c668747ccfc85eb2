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
   * The instant at which it counted for the limits of its tenant and module, if it did: see store/admission.ts.
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

/** Selects what the limits of a subject count: what left since, may have left, or waits. */
export interface CountedQuery {
  readonly tenant: string
  /** @defaultValue the whole tenant */
  readonly recipient?: string
  /** For a tenant, notifications created earlier are selected only if their turn came in a throttle queue since. */
  readonly since: number
  /**
   * Selects what the limits of a tenant and its modules count: every notification that was created since, or whose turn
   * came since, whatever became of it. Only for a tenant. @defaultValue false
   */
  readonly accepted?: boolean
  /**
   * Selects only what counts near the present: what left since `from` or may have left, and what waits and is due until
   * `to`; of what is due later the first of each page. Epoch ms. Only for a tenant, without `accepted`.
   * @defaultValue all
   */
  readonly within?: { readonly from: number; readonly to: number }
  /** The `nextCursor` of the page before. */
  readonly cursor?: string
  /** The number of rows that a page examines: it may return fewer, even none. */
  readonly limit: number
}

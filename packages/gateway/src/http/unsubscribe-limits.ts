/**
 * Rate limits of one-click unsubscribes, which carry no token of their tenant. They are separate from the
 * tenant's `writes`, so that neither causes refusals of the other. A repeated click writes nothing and is not
 * counted here.
 */
import { createLimits, type Decision, type Limit, limit, memoryStore } from '@sluice/limits'
import { SluiceError } from '../errors.ts'

export interface UnsubscribeLimitsOptions {
  /** Milliseconds of a monotonic clock. @defaultValue since the process began */
  readonly now?: () => number
}

export interface UnsubscribeLimits {
  /**
   * Counts one opt-out that is to be written.
   *
   * @throws SluiceError REQUEST_LIMIT_EXCEEDED for a refused one, which is not counted
   */
  take(tenant: string, recipient: string): void
}

/** A recipient has as many links as categories on channels; thirty clicks a minute come from no recipient. */
const ofRecipient: readonly Limit[] = [limit('unsubscribes', '30/min')]
/** The same default as other writes: each is a commit of a millisecond that others share. */
const ofTenant: readonly Limit[] = [limit('unsubscribes', '1000/s')]

export function createUnsubscribeLimits({
  now = () => Math.floor(performance.now()),
}: UnsubscribeLimitsOptions = {}): UnsubscribeLimits {
  // Recipients are forgotten when their windows are empty, after a minute: 60,000 at most for each tenant.
  const { sync } = createLimits({ store: memoryStore({ now, retentionMs: 0 }) })

  function refuse({ allowed, retryAfterMs }: Decision, whose: string): void {
    if (allowed) return
    const detail = `More is unsubscribed of this ${whose} than can be meant. Nothing was done and nothing is queued.`
    throw new SluiceError('REQUEST_LIMIT_EXCEEDED', detail, { retryAfterMs })
  }

  return {
    take(tenant, recipient) {
      const subject = JSON.stringify([tenant, recipient])
      // An opt-out that is refused by one of both counts in neither.
      refuse(sync.check(subject, ofRecipient), 'recipient')
      refuse(sync.take(JSON.stringify([tenant]), ofTenant), 'tenant')
      sync.take(subject, ofRecipient)
    },
  }
}

/**
 * Bounds for one-click unsubscribes, which carry no token of their tenant. They stand apart from the tenant's `writes`,
 * so that neither is refused for the other's sake. A click that was made before writes nothing and is not counted here.
 */
import { createLimits, type Decision, type Limit, limit, memoryStore } from '@sluice/limits'
import { SluiceError } from '../errors.ts'

export interface UnsubscribeLimitsOptions {
  /** Milliseconds of a clock that nobody sets. @defaultValue since the process began */
  readonly now?: () => number
}

export interface UnsubscribeLimits {
  /**
   * Counts one opt-out that is to be written.
   *
   * @throws SluiceError REQUEST_LIMIT_EXCEEDED, and then it is not counted
   */
  take(tenant: string, recipient: string): void
}

/** A recipient has as many links as categories on channels; who follows thirty a minute is no recipient. */
const ofRecipient: readonly Limit[] = [limit('unsubscribes', '30/min')]
/** As many as other writes by default: each is a commit of a millisecond that others share. */
const ofTenant: readonly Limit[] = [limit('unsubscribes', '1000/s')]

export function createUnsubscribeLimits({
  now = () => Math.floor(performance.now()),
}: UnsubscribeLimitsOptions = {}): UnsubscribeLimits {
  // Whoever clicks is forgotten when the windows are empty, after a minute: 60,000 at most for each tenant.
  const { sync } = createLimits({ store: memoryStore({ now, retentionMs: 0 }) })

  function refuse({ allowed, retryAfterMs }: Decision, whose: string): void {
    if (allowed) return
    const detail = `More is unsubscribed of this ${whose} than can be meant. Nothing was done and nothing is queued.`
    throw new SluiceError('REQUEST_LIMIT_EXCEEDED', detail, { retryAfterMs })
  }

  return {
    take(tenant, recipient) {
      const subject = JSON.stringify([tenant, recipient])
      // Who is refused by one of both counts in neither.
      refuse(sync.check(subject, ofRecipient), 'recipient')
      refuse(sync.take(JSON.stringify([tenant]), ofTenant), 'tenant')
      sync.take(subject, ofRecipient)
    },
  }
}

/**
 * Releases the holds of a notification that ended undelivered: its reservation in the limits, its place in the throttle
 * queue, its fingerprint. Called once the end is on record. Where the limiter's state or the store fails, what is left is
 * retried in the background: nobody else would release it, and a client that repeats its cancellation finds it done.
 */

import { awaitsLimits } from '../awaits-limits.ts'
import { isStateAway, SluiceError } from '../errors.ts'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, LimitState, Store } from '../ports.ts'
import type { RecipientLimiter, Recipients, ReleaseRequest } from '../stages.ts'
import { fingerprintHoldOf } from './duplicates.ts'
import { createRests } from './rests.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'

export interface HoldReleaserOptions {
  readonly limiter: RecipientLimiter
  readonly store: Pick<Store, 'notification'>
  readonly state: Pick<LimitState, 'releaseFingerprints'>
  readonly recipients: Recipients
  readonly policy: Policy
  readonly throttle: Pick<TenantThrottle, 'giveBack'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly onError: (what: string, error: unknown) => void
}

/**
 * Releases the holds of `held`, the record before it ended as `ended`. A delivered notification keeps its holds. Rejects
 * where the first try fails, unless the server of the limits is away: nobody is decided before that is back. What is left
 * is retried all the same.
 */
export type ReleaseHolds = (held: Notification, ended: Notification['status']) => Promise<void>

export interface HoldReleaser {
  readonly releaseHolds: ReleaseHolds
  /**
   * The limiter, which takes back again in the background what it could not, because the server of the limits is away: what
   * a try to accept had reserved would stand in the way of others for a window.
   */
  readonly limiter: RecipientLimiter
  /** Ends the retries; resolves to false where some were left: the next start has to let others move up. */
  stop(): Promise<boolean>
}

type Step = () => Promise<void>

/** Retry delay, ms: doubles with each failure. */
const [retryMsMin, retryMsMax] = [1_000, 60_000]
/** Notifications whose holds are retried at once. Those of any more are over when their instants have passed. */
const retriesMax = 10_000

export function createHoldReleaser(options: HoldReleaserOptions): HoldReleaser {
  const { limiter, state, store, recipients, policy, throttle, clock, onError } = options
  const { rest, wakeAll } = createRests(clock)
  const retries = new Set<Promise<void>>()
  const takenBackLater = new Set<string>()
  let stopped = false
  let isLeft = false

  function stepsOf(held: Notification, ended: Notification['status']): Step[] {
    const steps: Step[] = []
    // It was accepted while the limits could not be asked.
    if (awaitsLimits(held)) return steps
    // A failed notification reached its provider: its send counts in the limits, but it is no duplicate any more.
    if (ended === 'cancelled' || ended === 'suppressed' || ended === 'expired') {
      steps.push(
        () => throttle.giveBack([held]),
        async () => {
          const recipient = await recipients.find(held.tenant, held.to.id)
          await limiter.cancel([{ notification: held, recipient }])
        },
      )
    }
    if (ended === 'cancelled' || ended === 'suppressed' || ended === 'failed')
      steps.push(() => state.releaseFingerprints([fingerprintHoldOf(policy, held)]))
    return steps
  }

  /** Takes the steps in their order; one that failed is the first of those that are left. */
  async function take(steps: Step[]): Promise<void> {
    for (let [step] = steps; step !== undefined; [step] = steps) {
      await step()
      steps.shift()
    }
  }

  /** Retries until the steps are taken, one fails for a reason of its own, or the gateway stops. */
  async function retry(id: string, steps: Step[]): Promise<void> {
    for (let retryMs = retryMsMin; ; ) {
      await rest(retryMs)
      if (stopped) {
        isLeft = true
        return
      }
      try {
        return await take(steps)
      } catch (error) {
        onError(`release what ${id} held`, error)
        if (!isPassing(error)) return
        // While the server of the limits is away it is asked once in a while, whoever asks; those who wait are to move up
        // soon after it is back.
        retryMs = isStateAway(error) ? retryMsMin : Math.min(retryMsMax, 2 * retryMs)
      }
    }
  }

  function retryLater(id: string, steps: Step[]): Promise<void> {
    if (stopped) isLeft = true
    if (stopped || retries.size >= retriesMax) return Promise.resolve()
    const retrying = retry(id, steps).finally(() => retries.delete(retrying))
    retries.add(retrying)
    return retrying
  }

  /** One that is on record by then keeps what it holds. */
  function takeBackLater(request: ReleaseRequest): void {
    const { tenant, id } = request.notification
    if (takenBackLater.has(id)) return
    takenBackLater.add(id)
    const step: Step = async () => {
      if ((await store.notification(tenant, id)) === undefined) await limiter.takeBack([request])
    }
    void retryLater(id, [step]).finally(() => takenBackLater.delete(id))
  }

  return {
    limiter: {
      ...limiter,
      async takeBack(requests) {
        try {
          await limiter.takeBack(requests)
        } catch (error) {
          if (isStateAway(error)) for (const request of requests) takeBackLater(request)
          throw error
        }
      },
    },
    async releaseHolds(held, ended) {
      const steps = stepsOf(held, ended)
      try {
        await take(steps)
      } catch (error) {
        if (isPassing(error)) void retryLater(held.id, steps)
        if (!isStateAway(error)) throw error
      }
    },
    async stop() {
      stopped = true
      wakeAll()
      await Promise.all(retries)
      return !isLeft
    },
  }
}

const isPassing = (error: unknown): boolean => error instanceof SluiceError && error.retryable

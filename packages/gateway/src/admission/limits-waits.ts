/**
 * Decides notifications that were accepted undecided, in two lists: those whose categories the policy shares, and all others.
 * While this process keeps the limits because their server is away, only the shared ones are decided.
 */
import { SluiceError } from '../errors.ts'
import type { Policy } from '../policy/policy.ts'
import { createLimitsWait, type LimitsWait, type LimitsWaitOptions } from './limits-wait.ts'

export interface LimitsWaitsOptions extends Omit<LimitsWaitOptions, 'decide' | 'retryLater'> {
  readonly policy: Pick<Policy, 'onStateLost'>
  /** True while this process keeps the limits in its memory. */
  readonly keepsLimits: () => boolean
}

export interface LimitsWaits extends Pick<LimitsWait, 'add' | 'stop'> {
  /** True if a notification of the tenant waits here behind which one of this category is to wait. */
  hasOf(tenant: string, category: string): boolean
}

export function createLimitsWaits(
  decide: LimitsWaitOptions['decide'],
  retryLater: LimitsWaitOptions['retryLater'],
  { policy, keepsLimits, ledger, scheduler, clock, onError }: LimitsWaitsOptions,
): LimitsWaits {
  const parts = { retryLater, ledger, scheduler, clock, onError }
  const isShared = (category: string): boolean => policy.onStateLost(category) === 'share'
  const shared = createLimitsWait({ ...parts, decide })
  const others = createLimitsWait({
    ...parts,
    async decide(notification) {
      if (keepsLimits() && !isShared(notification.category))
        throw new SluiceError('STATE_UNAVAILABLE', 'The policy holds this category now.', {
          retryAfterMs: 1_000,
        })
      return decide(notification)
    },
  })
  return {
    add(notifications) {
      shared.add(notifications.filter(({ category }) => isShared(category)))
      others.add(notifications.filter(({ category }) => !isShared(category)))
    },
    hasOf: (tenant, category) =>
      shared.hasOf(tenant) || (others.hasOf(tenant) && !(keepsLimits() && isShared(category))),
    async stop() {
      await Promise.all([shared.stop(), others.stop()])
    },
  }
}

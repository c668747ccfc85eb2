/**
 * Decides notifications that were accepted undecided, in two queues: those whose categories the policy shares, and all others.
 * While this process keeps the limits because their server is away, only the shared ones are decided.
 */
import { SluiceError } from '../errors.ts'
import type { Policy } from '../policy/policy.ts'
import { createUndecidedQueue, type UndecidedQueue, type UndecidedQueueOptions } from './undecided-queue.ts'

export interface UndecidedOptions extends UndecidedQueueOptions {
  readonly policy: Pick<Policy, 'onStateLost'>
  /** True while this process keeps the limits in its memory. */
  readonly keepsLimits: () => boolean
}

export interface Undecided extends Pick<UndecidedQueue, 'add' | 'stop'> {
  /** True if a notification of the tenant waits here behind which one of this category to the recipient is to wait. */
  hasOf(tenant: string, category: string, recipient: string): boolean
}

export function createUndecided(options: UndecidedOptions): Undecided {
  const { decide, retryLater, policy, keepsLimits, ledger, scheduler, clock, onError } = options
  const parts = { retryLater, ledger, scheduler, clock, onError }
  const isShared = (category: string): boolean => policy.onStateLost(category) === 'share'
  const shared = createUndecidedQueue({ ...parts, decide })
  const others = createUndecidedQueue({
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
    hasOf: (tenant, category, recipient) =>
      shared.hasOf(tenant, recipient) ||
      (others.hasOf(tenant, recipient) && !(keepsLimits() && isShared(category))),
    async stop() {
      await Promise.all([shared.stop(), others.stop()])
    },
  }
}

/**
 * The policy in force, which a reload replaces while the gateway runs. Every stage is given `part` and reads it anew
 * in each step, so that no stage keeps a rule of the policy before. What a step computed under the policy before is
 * refused at its commit (admission/policy-commits.ts).
 */
import type { Policy } from './policy.ts'

export interface LivePolicy {
  /** Passes each call on to the policy in force. */
  readonly part: Policy
  replace(next: Policy): void
}

export function createLivePolicy(first: Policy): LivePolicy {
  let current = first
  return {
    part: {
      get version() {
        return current.version
      },
      get document() {
        return current.document
      },
      get maxDelayMs() {
        return current.maxDelayMs
      },
      get deduplicationWindowMs() {
        return current.deduplicationWindowMs
      },
      get spreadMs() {
        return current.spreadMs
      },
      get longestWindowMs() {
        return current.longestWindowMs
      },
      get countsRefused() {
        return current.countsRefused
      },
      get selectors() {
        return current.selectors
      },
      get digests() {
        return current.digests
      },
      rulesFor: (notification, recipient) => current.rulesFor(notification, recipient),
      strongest: (limits) => current.strongest(limits),
      digestFor: (notification) => current.digestFor(notification),
      digest: (name) => current.digest(name),
      quietFor: (notification, recipient) => current.quietFor(notification, recipient),
    },
    replace(next) {
      current = next
    },
  }
}

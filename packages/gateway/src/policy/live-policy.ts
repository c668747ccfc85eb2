/**
 * The policy in force, which a reload replaces while the gateway runs. Every stage is given `part` and reads it anew
 * in each step, so that no stage keeps a rule of the policy before. What a step computed under the policy before is
 * refused at its commit (admission/policy-commits.ts).
 */
import type { Policy } from './policy.ts'

export interface LivePolicy {
  /** Reads each property of the policy in force. A function of it that is kept stays that of its policy. */
  readonly part: Policy
  replace(next: Policy): void
}

export function createLivePolicy(first: Policy): LivePolicy {
  let current = first
  // A compiled policy has every property, absent ones as undefined.
  const names = Object.keys(first) as (keyof Policy)[]
  const accessors = names.map((name) => [name, { get: () => current[name], enumerable: true }] as const)
  return {
    part: Object.defineProperties({}, Object.fromEntries(accessors)) as Policy,
    replace(next) {
      current = next
    },
  }
}

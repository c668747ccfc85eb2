/** Suppresses notifications that an opt-out or a missing address forbids, before any limit is asked. Pure. */
import type { Channel } from '../model.ts'
import { address, isInvalid, optedOut } from '../policy/preferences.ts'
import { type Candidate, type Evaluation, suppressed, type Verdict } from './candidate.ts'

export interface EligibilityOptions {
  /** Channels that need no recipient address. */
  readonly selfAddressed: ReadonlySet<Channel>
}

/** Returns the verdict of suppression, if any. `limit` is the one that chose a fallback channel. */
export type EligibilityCheck = (
  candidate: Candidate,
  channel: Channel,
  evaluation: Pick<Evaluation, 'now' | 'policyVersion'>,
  limit?: string,
) => Verdict | undefined

export function createEligibility({ selfAddressed }: EligibilityOptions): EligibilityCheck {
  return ({ notification, recipient }, channel, { now, policyVersion }, limit) => {
    const { category, priority, to } = notification
    const more = limit === undefined ? {} : { limit }
    if (optedOut(recipient, category, channel, priority))
      return suppressed(policyVersion, now, 'opted_out', more)
    if (selfAddressed.has(channel)) return undefined
    const found = address(to, recipient, channel)
    if (found !== undefined && !isInvalid(recipient, channel, found)) return undefined
    const detail = found === undefined ? `no address for ${channel}` : `the address for ${channel} bounced`
    return suppressed(policyVersion, now, 'invalid_address', { ...more, detail })
  }
}

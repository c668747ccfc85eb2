/** What a person's own word or a missing address forbids, whatever the limits say. Pure. */
import type { Channel } from '../model.ts'
import { address, optedOut } from '../policy/preferences.ts'
import { type Case, suppressed, type Verdict } from './case.ts'

export interface RefusalOptions {
  readonly policyVersion: string
  /** Channels on which nobody needs an address. */
  readonly selfAddressed: ReadonlySet<Channel>
}

/** `limit` is the one that chose the channel, where it is not the channel that was asked for. */
export type Refusal = (each: Case, channel: Channel, now: number, limit?: string) => Verdict | undefined

export function createRefusal({ policyVersion, selfAddressed }: RefusalOptions): Refusal {
  return ({ notification, person }, channel, now, limit) => {
    const { category, priority, to } = notification
    const more = limit === undefined ? {} : { limit }
    if (optedOut(person, category, channel, priority))
      return suppressed(policyVersion, now, 'opted_out', more)
    if (selfAddressed.has(channel) || address(to, person, channel) !== undefined) return undefined
    return suppressed(policyVersion, now, 'invalid_address', {
      ...more,
      detail: `no address for ${channel}`,
    })
  }
}

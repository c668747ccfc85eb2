/**
 * Computes the quiet hours of a recipient on a channel: one window of their own or of the policy, and every
 * legal one that applies. Each is a wall-clock window in the recipient's time zone, and all of them apply.
 * Where only a phone number gives the zone, legal hours hold in every zone of its country code.
 */
import { isTimeZone } from '@sluice/limits'
import type { Channel, Priority, QuietWindow, Recipient } from '../model.ts'
import type { QuietEntry } from './document.ts'
import { zonesOfPhone } from './phone-zones.ts'
import type { QuietRule } from './policy.ts'

const never: readonly QuietRule[] = Object.freeze([])

/**
 * Creates `quietFor` of a policy. Without a section a recipient's own hours still apply, read as UTC where the
 * zone is unknown.
 */
export function createQuietHours(section: QuietEntry | undefined) {
  const byDefault = section?.byDefault
  const legal = section?.legal ?? []
  const unknownTimeZone = section?.unknownTimeZone ?? 'UTC'
  const except = new Set(byDefault?.except)

  function zoneFor(given: string | undefined): string {
    return given !== undefined && isTimeZone(given) ? given : unknownTimeZone
  }

  /**
   * The recipient's hours for the channel come before their hours for all channels, and those before the
   * policy's.
   */
  function windowFor(channel: Channel, quietHours: Recipient['quietHours']): QuietWindow | undefined {
    const own = quietHours?.[channel] ?? quietHours?.default
    if (own !== undefined) return own
    return byDefault?.channels.includes(channel) === true ? byDefault : undefined
  }

  return (
    notification: { readonly channel: Channel; readonly category: string; readonly priority: Priority },
    recipient: Pick<Recipient, 'timeZone' | 'quietHours' | 'phone'>,
  ): readonly QuietRule[] => {
    const { channel, category, priority } = notification
    if (priority === 'critical') return never
    // An excepted category passes the recipient's own hours too: only the policy decides what may wake a
    // recipient.
    const window = except.has(category) ? undefined : windowFor(channel, recipient.quietHours)
    const laws = legal.filter((law) => covers(law.channel, channel) && covers(law.category, category))
    const isQuiet = window !== undefined && window.from !== window.to
    if (!isQuiet && laws.length === 0) return never
    const timeZone = zoneFor(recipient.timeZone)
    const rules: QuietRule[] = []
    if (isQuiet) rules.push({ reason: 'quiet_hours', spec: { from: window.from, to: window.to, timeZone } })
    const zones = laws.length === 0 ? [] : (zonesByPhone(channel, recipient) ?? [timeZone])
    for (const { quiet } of laws)
      for (const zone of zones) rules.push({ reason: 'legal_hours', spec: { ...quiet, timeZone: zone } })
    return rules
  }
}

/** The zones of the phone number, only where it is the address that is used and nothing better is known. */
function zonesByPhone(
  channel: Channel,
  { timeZone, phone }: Pick<Recipient, 'timeZone' | 'phone'>,
): readonly string[] | undefined {
  if (channel !== 'sms' || phone === undefined) return undefined
  return timeZone !== undefined && isTimeZone(timeZone) ? undefined : zonesOfPhone(phone)
}

function covers(listed: readonly string[] | undefined, value: string): boolean {
  return listed === undefined || listed.includes(value)
}

/**
 * Computes the quiet hours of a recipient on a channel: one window of their own or of the policy, and every
 * legal one that applies. Each is a wall-clock window in the recipient's time zone, and all of them apply.
 * Where only a phone number gives the zone, legal hours hold in every zone of its country code.
 */
import { isTimeZone } from '@sluice/limits'
import type { Channel, Priority, QuietWindow, Recipient } from '../model.ts'
import type { QuietEntry } from './document.ts'
import { uniform32 } from './hash.ts'
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

// ---- the end of quiet hours
//
// Spreads the notifications that wait for the end of quiet hours over the minutes after it. The offset depends
// on the id alone: it is the same after a restart and in every process, so a notification that is decided anew
// keeps it.

/**
 * Returns the stable offset of a notification, in ms, within [0, spreadMs).
 *
 * @param spreadMs - up to 2^32 ms, 49 days; 0 or less gives 0
 */
export function spreadOffset(id: string, spreadMs: number): number {
  return spreadMs > 0 ? Math.floor((uniform32(id) / 2 ** 32) * spreadMs) : 0
}

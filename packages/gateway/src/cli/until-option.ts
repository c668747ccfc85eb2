/** Reads an option that is the end of a hold: a span from now, the next such time of day here, or an RFC 3339 instant. */
import { readDuration } from '../config/quantity.ts'
import { type Arguments, badUsage, type CommandForm } from './command.ts'
import { plain } from './text.ts'

/**
 * Returns epoch ms; undefined where the option is not given.
 * @throws SluiceError `BAD_USAGE`
 */
export function untilOption(
  form: CommandForm,
  read: Arguments,
  option: string,
  now: number,
): number | undefined {
  const text = read.text(option)
  if (text === undefined) return undefined
  const [, hours, minutes] = /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(text) ?? []
  if (hours !== undefined) {
    const at = new Date(now)
    at.setHours(Number(hours), Number(minutes), 0, 0)
    if (at.getTime() <= now) at.setDate(at.getDate() + 1)
    return at.getTime()
  }
  if (/^\d{4}-/.test(text)) {
    if (Number.isNaN(Date.parse(text))) throw badUsage(form, `"${plain(text)}" is no instant`)
    return Date.parse(text)
  }
  try {
    return now + readDuration(text)
  } catch {
    throw badUsage(
      form,
      `--${option} expects a span such as 2h, a time of day such as 09:00, or an RFC 3339 instant`,
    )
  }
}

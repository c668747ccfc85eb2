/** Reads an option that is an instant: a date, which is its midnight in UTC, or an ISO 8601 text with its offset. */
import { type Arguments, badUsage, type CommandForm } from './command.ts'

const form8601 = /^(\d{4}-\d{2}-\d{2})(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/i

/**
 * Returns epoch ms; undefined where the option is not given.
 * @throws SluiceError `BAD_USAGE`
 */
export function instantOption(form: CommandForm, read: Arguments, option: string): number | undefined {
  const text = read.text(option)
  if (text === undefined) return undefined
  const instant = parse(text)
  if (Number.isNaN(instant))
    throw badUsage(
      form,
      `--${option} expects a date or an instant such as 2026-11-22 or 2026-11-22T08:00:00Z, not "${text}"`,
    )
  return instant
}

/**
 * Returns the same as text in UTC, as the gateway takes it; undefined where the option is not given.
 * @throws SluiceError `BAD_USAGE`
 */
export function instantTextOption(form: CommandForm, read: Arguments, option: string): string | undefined {
  const instant = instantOption(form, read, option)
  return instant === undefined ? undefined : new Date(instant).toISOString()
}

function parse(text: string): number {
  const date = form8601.exec(text)?.[1]
  const midnight = Date.parse(date ?? '')
  // Date.parse reads 30 February as 2 March.
  if (date === undefined || Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date))
    return Number.NaN
  return Date.parse(text.toUpperCase())
}

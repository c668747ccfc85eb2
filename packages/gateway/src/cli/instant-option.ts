/** Reads an option that is an instant: a date, which is its midnight in UTC, or an ISO 8601 text with its offset. */
import { type Arguments, badUsage, type CommandForm } from './command.ts'

const form8601 = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

/**
 * Returns epoch ms; undefined where the option is not given.
 * @throws SluiceError `BAD_USAGE`
 */
export function instantOption(form: CommandForm, read: Arguments, option: string): number | undefined {
  const text = read.text(option)
  if (text === undefined) return undefined
  const instant = form8601.test(text) ? Date.parse(text) : Number.NaN
  if (Number.isNaN(instant))
    throw badUsage(
      form,
      `--${option} expects a date or an instant such as 2026-11-22 or 2026-11-22T08:00:00Z, not "${text}"`,
    )
  return instant
}

/** Option names, for those who call without types: one that does not exist is refused with the one that was meant. Pure. */
import { LimitsError, type LimitsErrorCode } from './errors.ts'

/** Words of other libraries, and what each is called here. */
export type Meant = Readonly<Record<string, string>>

const nothingMeant: Meant = {}

/**
 * Options as they are, once all their names are known.
 *
 * @throws LimitsError `INVALID_ARGUMENT`, or the code given
 */
export function checkNames<O extends object>(
  options: O,
  known: readonly string[],
  meant: Meant = nothingMeant,
  code: LimitsErrorCode = 'INVALID_ARGUMENT',
): O {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new LimitsError(code, `options are an object with ${known.join(', ')}`)
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue
    const guess = Object.hasOwn(meant, name) ? meant[name]! : known.find((each) => isAlike(each, name))
    const hint = guess !== undefined && known.includes(guess) ? `, did you mean '${guess}'?` : ';'
    throw new LimitsError(code, `there is no option '${name}'${hint} There are ${known.join(', ')}`)
  }
  return options
}

/** The same letters but for case, or the beginning of one another. */
function isAlike(known: string, written: string): boolean {
  const [a, b] = [known.toLowerCase(), written.toLowerCase()]
  return b.length > 2 && (a.startsWith(b) || b.startsWith(a))
}

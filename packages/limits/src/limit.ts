/**
 * A limit: a name, the windows that must all admit, and the stream of instants that they count. Limits that name
 * the same stream share one list, so `marketing` per day and `marketing` per author each count what they should and
 * nothing is stored twice. A limit is data: frozen, serialisable, made once and used in every call.
 */
import { checkText, LimitsError } from './errors.ts'
import { checkNames } from './options.ts'
import { checkWindow, parseDuration, parseWindows, type Window } from './window.ts'

/** The behaviour of a reservation over the limit: wait, be refused as a whole, or go all the same and count. */
export const overs = ['delay', 'refuse', 'count'] as const
export type Over = (typeof overs)[number]

export interface LimitOptions {
  /**
   * The list of instants that is counted. Limits of the same subject with the same stream share it.
   *
   * @defaultValue the limit's name
   */
  readonly stream?: string
  /**
   * The least distance between two events, `'300ms'` or milliseconds. It is kept as one more window, `1/300ms`, and
   * is no other window's length.
   *
   * @defaultValue none
   */
  readonly minGap?: string | number
  /**
   * The behaviour of `reserve` when this limit does not admit: `delay` to the earliest instant that all limits admit, or
   * `refuse` the reservation as a whole. The other operations make no difference between the two. A limit that says
   * `count` never refuses anything: it counts passing calls, by which other limits of the stream refuse.
   *
   * @defaultValue 'delay'
   */
  readonly over?: Over
  /**
   * True where a refused `take` counts here too, so that a caller that keeps trying stays locked out.
   *
   * @defaultValue false
   */
  readonly countRefused?: boolean
}

export interface Limit {
  readonly name: string
  readonly stream: string
  /** In the order in which they were written; a minimum distance comes last. */
  readonly windows: readonly Window[]
  readonly over: Over
  readonly countRefused: boolean
}

const textMax = 512
const known = ['stream', 'minGap', 'over', 'countRefused']
const invalid = 'INVALID_LIMIT'

/**
 * A limit over one or several rolling windows, all of which must admit.
 *
 * @param name what decisions call it; unique within the limits of one call
 * @param windows `'2/day, 5/week'` or `['2/day', '5/week']`, each of another length; an empty list where there is a
 *   `minGap`. A count of 0 refuses everything
 * @throws LimitsError `INVALID_LIMIT`, `INVALID_WINDOW` or `INVALID_DURATION`, with the reason
 */
export function limit(name: string, windows: string | readonly string[], options: LimitOptions = {}): Limit {
  checkText(invalid, 'the name of a limit', name, textMax)
  const label = `limit '${name}'`
  inLimit(label, () => checkNames(options, known, undefined, invalid))
  const { stream = name, minGap, over = 'delay', countRefused = false } = options
  checkText(invalid, 'the stream of a limit', stream, textMax)
  if (!overs.includes(over))
    throw new LimitsError(invalid, `${label}: over is 'delay', 'refuse' or 'count', not ${String(over)}`)
  if (typeof countRefused !== 'boolean')
    throw new LimitsError(invalid, `${label}: countRefused is true or false`)
  const all = inLimit(label, () => {
    const written = parseWindows(windows)
    return minGap === undefined ? written : withGap(written, gapWindow(minGap))
  })
  if (all.length === 0) throw new LimitsError(invalid, `${label} has no window and no minGap`)
  return Object.freeze({ name, stream, windows: Object.freeze(all), over, countRefused })
}

/** The same limit over another stream: the way to count per author, per device, per address. */
export function onStream(limit: Limit, stream: string): Limit {
  checkText(invalid, 'the stream of a limit', stream, textMax)
  return Object.freeze({ ...limit, stream })
}

/** A window as long as the distance is no fault: the tighter of the two decides, and the other has nothing to say. */
function withGap(windows: readonly Window[], gap: Window): readonly Window[] {
  const rest = windows.filter(({ windowMs, max }) => windowMs !== gap.windowMs || max < gap.max)
  return rest.some(({ windowMs }) => windowMs === gap.windowMs) ? rest : [...rest, gap]
}

function gapWindow(minGap: string | number): Window {
  const windowMs = parseDuration(minGap)
  const written = typeof minGap === 'number' ? `${minGap}ms` : minGap.replaceAll(/\s+/g, '')
  const window = Object.freeze({ max: 1, windowMs, text: `1/${written}` })
  checkWindow(window)
  return window
}

/** Says which limit an unreadable window stands in. */
function inLimit<T>(label: string, read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof LimitsError) throw new LimitsError(error.code, `${label}: ${error.message}`)
    throw error
  }
}

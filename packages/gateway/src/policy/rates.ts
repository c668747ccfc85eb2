/**
 * Reads windows and durations of a policy with the limiter's own parsers, so that a policy and the library
 * understand the same. A mistake is noted at its path instead of thrown.
 */
import { formatDuration, parseDuration, parseWindow, parseWindows, type Window } from '@sluice/limits'
import type { Faults } from './faults.ts'
import { readList, show } from './faults.ts'

export const dayMs = 86_400_000

/** Limits are restored from notifications that are kept for 31 days: no window can look further back. */
export const windowMsMax = 31 * dayMs

/** The library takes longer windows than the gateway keeps. @throws Error with the reason */
export function checkKept({ text, windowMs }: Window): void {
  if (windowMs <= windowMsMax) return
  const reason = '1ms to 31d is possible, since what was counted is kept for 31 days'
  throw new Error(`'${text}' lasts ${windowMs} ms: ${reason}`)
}

/** Windows of one limit at most: each is checked for every notification that it counts. */
const windowsMax = 20

/** Reads a duration of at least `msMin` and at most `msMax`; returns ms. */
export function readDuration(
  value: unknown,
  path: string,
  msMax: number,
  faults: Faults,
  msMin = 1,
): number | undefined {
  if (typeof value !== 'string') {
    return faults.add(path, `expected a duration such as 300ms, 60min or 7d; this is ${show(value)}`)
  }
  const durationMs = attempt(() => parseDuration(value), path, faults)
  if (durationMs === undefined) return undefined
  if (durationMs >= msMin && durationMs <= msMax) return durationMs
  return faults.add(
    path,
    `${show(value)} is not within ${formatDuration(msMin)} and ${formatDuration(msMax)}`,
  )
}

/** Reads windows: `2/day`, `2/day, 5/week`, or a list of them; `unlimited` gives none. */
export function readWindows(value: unknown, path: string, faults: Faults): readonly Window[] | undefined {
  if (value === 'unlimited') return []
  const isText = typeof value === 'string'
  const entries = isText ? value.split(',') : readList(value, path, windowsMax, faults)
  if (entries === undefined) return undefined
  if (entries.length === 0)
    return faults.add(path, 'is an empty list; where nothing bounds it, write unlimited')
  const windows = entries.map((entry, index) =>
    readWindow(entry, isText ? path : `${path}[${index}]`, faults),
  )
  if (!windows.every((window) => window !== undefined)) return undefined
  return attempt(() => parseWindows(windows.map(({ text }) => text)), path, faults)
}

function readWindow(value: unknown, path: string, faults: Faults): Window | undefined {
  if (typeof value === 'string') {
    const read = (): Window => {
      const window = parseWindow(value)
      checkKept(window)
      return window
    }
    return attempt(read, path, faults)
  }
  return faults.add(path, `expected a window such as 2/day or 100/30min; this is ${show(value)}`)
}

/** Returns the result of a parser; an error becomes a fault. */
export function attempt<T>(parse: () => T, path: string, faults: Faults): T | undefined {
  try {
    return parse()
  } catch (error) {
    return faults.add(path, error instanceof Error ? error.message : String(error))
  }
}

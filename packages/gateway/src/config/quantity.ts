/**
 * Reads scalars of a configuration: durations, rates, sizes. Each reader takes the text of the file and returns
 * the number that the gateway works with, or throws the reason of the refusal.
 */
import { parseDuration, parseWindows, type Window } from '@sluice/limits'
import { checkKept } from '../policy/rates.ts'

/** A rate of one or several windows, all of which apply. */
export interface Rate {
  /** The rate as text: `100/s, 50000/h`, or `unlimited`. */
  readonly text: string
  /** No windows mean unlimited. */
  readonly windows: readonly Window[]
}

/** An account or tenant that may never send is a mistake: it should be removed from the configuration. */
const neverReason = 'a rate of 0 would let nothing through, ever'

/**
 * Reads a rate: `100/s`, `100/s, 50000/h`, a list of such texts, or `unlimited`.
 *
 * @throws Error with the reason
 */
export function readRate(value: string | readonly string[]): Rate {
  if (value === 'unlimited') return { text: 'unlimited', windows: [] }
  const windows = parseWindows(value)
  windows.forEach(checkKept)
  if (windows.length === 0) throw new Error('it has no window; without a bound write unlimited')
  if (windows.some((window) => window.max === 0)) throw new Error(neverReason)
  return { text: windows.map((window) => window.text).join(', '), windows }
}

/**
 * Reads a duration: `300ms`, `3s`, `4h`, or a whole number of milliseconds.
 *
 * @throws Error with the reason
 */
export function readDuration(value: string | number): number {
  return parseDuration(value)
}

/**
 * Reads a share: `5%`, or a number from 0 to 1.
 *
 * @throws Error with the reason
 */
export function readShare(value: string | number): number {
  const share = typeof value === 'number' ? value : Number.parseFloat(value) / 100
  if (share >= 0 && share <= 1) return share
  throw new Error('a share is from 0% to 100%')
}

const bytesOf = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, KB: 1e3, MB: 1e6, GB: 1e9 } as const
const sizePattern = /^(\d{1,12})\s*(B|KiB|MiB|GiB|KB|MB|GB)$/

/**
 * Reads a size: `1MiB`, `64KiB`, or a whole number of bytes.
 *
 * @throws Error with the reason
 */
export function readSize(value: string | number): number {
  if (typeof value === 'number') {
    if (Number.isSafeInteger(value) && value > 0) return value
    throw new Error('a size is a whole number of bytes above 0')
  }
  const match = sizePattern.exec(value.trim())
  const bytes = match === null ? Number.NaN : Number(match[1]) * bytesOf[match[2] as keyof typeof bytesOf]
  if (Number.isSafeInteger(bytes) && bytes > 0) return bytes
  throw new Error('a size is a whole number with one of B KiB MiB GiB KB MB GB')
}

/** Formats a size in its largest whole unit: `1_048_576` becomes `1MiB`. */
export function sizeText(bytes: number): string {
  const unit = (['GiB', 'MiB', 'KiB'] as const).find((name) => bytes % bytesOf[name] === 0) ?? 'B'
  return `${bytes / bytesOf[unit]}${unit}`
}

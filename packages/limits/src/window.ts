/**
 * Durations and windows as people write them: `4h`, `2/day`, `100/30min`, `2/day, 5/week`. A window is a count and
 * a rolling duration: no half-open interval of that length may hold more than the count. A day is 24 hours and a
 * month 30 days, because windows roll and know no calendar.
 */
import { isWhole, LimitsError } from './errors.ts'

/** At most `max` in every rolling `windowMs`. */
export interface Window {
  /** 0 refuses everything. */
  readonly max: number
  readonly windowMs: number
  /** As it was written, without spaces: `2/day`, `10/1h`. */
  readonly text: string
}

const second = 1_000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

const unitMs = {
  ms: 1,
  s: second,
  min: minute,
  h: hour,
  d: day,
  day,
  week: 7 * day,
  month: 30 * day,
} as const

/** The longest window is a leap year. What Redis writes of it, with the longest margin, is below 128^5 ms. */
const windowMsMax = 366 * day
/** The longest window of slots and token buckets, whose sums of a million a window stay whole numbers; and the longest margin. */
export const shortWindowMsMax = 31 * day

/** Words that a window is understood with besides, as other limiters write it. Not `m`: a minute, or a month. */
const otherNames: Readonly<Record<string, keyof typeof unitMs>> = {
  sec: 's',
  second: 's',
  seconds: 's',
  minute: 'min',
  minutes: 'min',
  hour: 'h',
  hours: 'h',
  days: 'day',
  weeks: 'week',
  months: 'month',
}

/** An exact limiter keeps every instant that it counts: so many calls are 8 MB per stream, one batch a few bytes. */
export const windowCountMax = 1_000_000

const durationPattern = /^\s*(\d{1,15})\s*([a-z]+)\s*$/
const windowPattern = /^\s*(\d{1,15})\s*\/\s*(\d{0,15})\s*([a-z]+)\s*$/
const units = /* @__PURE__ */ Object.keys(unitMs).join(' ')

function unitOf(name = ''): number {
  return Object.hasOwn(unitMs, name) ? unitMs[name as keyof typeof unitMs] : Number.NaN
}

/**
 * Milliseconds of a duration such as `300ms`, `3s`, `60min`, `4h`, `7d`, `2week`, `1month`; a number is taken as
 * milliseconds. Zero is a duration; whether it makes sense is for the caller to say.
 *
 * @throws LimitsError `INVALID_DURATION`
 */
export function parseDuration(duration: string | number): number {
  if (isWhole(duration, 0)) return duration
  const [, count, unit] = (typeof duration === 'string' && durationPattern.exec(duration)) || []
  const ms = Number(count) * unitOf(unit)
  if (isWhole(ms, 0)) return ms
  throw new LimitsError(
    'INVALID_DURATION',
    `${shown(duration)} is not a duration such as 300ms, 60min or 7d: a whole number of ${units}`,
  )
}

/**
 * One window: `2/day`, `100/30min`, `1000/s`, `10/1h`.
 *
 * @throws LimitsError `INVALID_WINDOW`
 */
export function parseWindow(text: string): Window {
  const [, max, count, name = ''] = (typeof text === 'string' && windowPattern.exec(text)) || []
  const windowMs = Number(count || 1) * unitOf(Object.hasOwn(otherNames, name) ? otherNames[name] : name)
  if (Number.isNaN(windowMs)) {
    throw new LimitsError(
      'INVALID_WINDOW',
      `${shown(text)} is not a window such as 2/day or 100/30min: a whole count, a slash, a duration in ${units}`,
    )
  }
  const window = { max: Number(max), windowMs, text: text.replaceAll(/\s+/g, '') }
  checkWindow(window)
  return Object.freeze(window)
}

/**
 * Several windows, each of another length: `'2/day, 5/week'`, or a list of such texts.
 *
 * @throws LimitsError `INVALID_WINDOW`
 */
export function parseWindows(windows: string | readonly string[]): readonly Window[] {
  const parsed = [windows]
    .flat()
    .flatMap((text) => (typeof text === 'string' ? text.split(',') : [text]))
    .map(parseWindow)
  // The wider of two windows of one length would never decide, and both would go by nearly one name.
  for (const [index, { windowMs, text }] of parsed.entries()) {
    const twin = parsed.slice(0, index).find((other) => other.windowMs === windowMs)
    if (twin !== undefined)
      throw new LimitsError(
        'INVALID_WINDOW',
        `'${twin.text}' and '${text}' are equally long: keep the tighter`,
      )
  }
  return Object.freeze(parsed)
}

/** Refuses counts and durations that cannot be kept. */
export function checkWindow(window: Window): void {
  const { max, windowMs } = window
  const label = shown(window.text)
  if (!isWhole(max, 0, windowCountMax)) {
    throw new LimitsError(
      'INVALID_WINDOW',
      `${label} counts to ${max}: a whole number from 0 to ${windowCountMax} is needed`,
    )
  }
  if (!isWhole(windowMs, 1, windowMsMax)) {
    throw new LimitsError('INVALID_WINDOW', `${label} lasts ${windowMs} ms: 1ms to 366d is possible`)
  }
}

/** A duration in its largest whole unit: `86_400_000` reads `1d`, `90_000` reads `90s`. */
export function formatDuration(ms: number): string {
  const unit = (['d', 'h', 'min', 's'] as const).find((name) => ms % unitMs[name] === 0 && ms > 0) ?? 'ms'
  return `${ms / unitMs[unit]}${unit}`
}

/** A window as one would write it: `2/day`, `5/week`, `100/30min`, `1/300ms`. */
export function formatWindow(window: Pick<Window, 'max' | 'windowMs'>): string {
  const { max, windowMs } = window
  const one = (['month', 'week', 'day', 'h', 'min', 's', 'ms'] as const).find(
    (name) => unitMs[name] === windowMs,
  )
  return `${max}/${one ?? formatDuration(windowMs)}`
}

function shown(value: unknown): string {
  return typeof value === 'string' ? `'${value.slice(0, 60)}'` : String(value)
}

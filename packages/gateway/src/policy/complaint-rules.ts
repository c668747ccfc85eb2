/** Reads and writes the section `complaints` of a policy. */
import { formatDuration } from '@sluice/limits'
import type { JsonObject } from '../model.ts'
import { type ComplaintRules, unguardedCategories } from './complaint-guard.ts'
import { type Faults, readCount, readFields, readTexts, show } from './faults.ts'
import { dayMs, readDuration, windowMsMax } from './rates.ts'

/** The thresholds that Gmail recommends to stay below, and at which it begins to filter: support.google.com/a/answer/81126. */
const byDefault = {
  warnAt: 0.0005,
  pauseAt: 0.001,
  windowMs: 7 * dayMs,
  minimumDelivered: 1_000,
  categories: ['marketing'],
} as const satisfies ComplaintRules

const known = ['warnAt', 'pauseAt', 'window', 'minimumDelivered', 'categories'] as const
const deliveredMax = 1_000_000_000

export function readComplaints(value: unknown, faults: Faults): ComplaintRules | undefined {
  const fields = readFields(value, 'complaints', known, faults)
  if (fields === undefined) return undefined
  const or = <T>(field: (typeof known)[number], missing: T, read: (value: unknown, path: string) => T) =>
    fields[field] === undefined ? missing : read(fields[field], `complaints.${field}`)
  const share = (given: unknown, path: string) => readShare(given, path, faults)
  const warnAt = or<number | undefined>('warnAt', byDefault.warnAt, share)
  const pauseAt = or<number | undefined>('pauseAt', byDefault.pauseAt, share)
  const windowMs = or<number | undefined>('window', byDefault.windowMs, (given, path) =>
    readDuration(given, path, windowMsMax, faults),
  )
  const minimumDelivered = or<number | undefined>(
    'minimumDelivered',
    byDefault.minimumDelivered,
    (given, path) => readCount(given, path, deliveredMax, faults),
  )
  const categories = or<readonly string[] | undefined>('categories', byDefault.categories, (given, path) =>
    readTexts(given, path, faults, (text) =>
      unguardedCategories.includes(text)
        ? `${text} is never slowed: ${unguardedCategories.join(' and ')} leave whatever is complained about`
        : undefined,
    ),
  )
  if (warnAt !== undefined && pauseAt !== undefined && warnAt >= pauseAt)
    return faults.add('complaints.warnAt', 'has to be below pauseAt')
  if (warnAt === undefined || pauseAt === undefined || windowMs === undefined) return undefined
  if (minimumDelivered === undefined || categories === undefined) return undefined
  return { warnAt, pauseAt, windowMs, minimumDelivered, categories }
}

/** Reads a share above 0: `0.05%`, or a number up to 1. */
function readShare(value: unknown, path: string, faults: Faults): number | undefined {
  const percent = typeof value === 'string' ? /^\s*(\d+(?:\.\d+)?)\s*%\s*$/.exec(value)?.[1] : undefined
  // Rounded, so that 0.07 % is the number that 0.0007 is.
  const share = percent === undefined ? value : Number((Number(percent) / 100).toPrecision(15))
  if (typeof share === 'number' && share > 0 && share <= 1) return share
  return faults.add(path, `expected a share such as 0.05%, above 0% and up to 100%; this is ${show(value)}`)
}

export function writeComplaints(rules: ComplaintRules): JsonObject {
  const { warnAt, pauseAt, windowMs, minimumDelivered, categories } = rules
  const percent = (share: number): string => `${Number((share * 100).toPrecision(15))}%`
  return {
    warnAt: percent(warnAt),
    pauseAt: percent(pauseAt),
    window: formatDuration(windowMs),
    minimumDelivered,
    categories,
  }
}

/**
 * A limit of the policy as it counts: the limiter's limit over one stream, or over one stream for each set of
 * values (an author, a channel) where `per` names more than whose count it is. Counters are made once for a policy;
 * their limits are the same objects for the same values, so that the limiter knows them again.
 */
import { formatDuration, type Limit, limit, onStream } from '@sluice/limits'
import { Segments } from './cache.ts'
import type { Bounds, LimitEntry } from './document.ts'
import { flush } from './hash.ts'
import type { Over } from './policy.ts'
import type { ValueField } from './selector.ts'
import { selectorText, type Values, valuesText } from './selector.ts'

/** The name and stream of the limit for critical notifications. No selector's text reads so. */
export const criticalName = 'critical'

/** Limits that are remembered by their values, in each of two generations: a few hundred bytes each. */
export const valuesMax = 2_000

/** The limiter takes streams of up to 512 characters. */
const streamLengthMax = 512

/** Stands between a limit's name and an author where one call counts for several. No name of a policy holds it. */
const authorMark = '\u001f'

const noFields: readonly ValueField[] = []

export interface Counter {
  readonly limit: Limit
  /** What distinguishes its streams within the subject, in canonical order. */
  readonly fields: readonly ValueField[]
  readonly byValues: Segments<Limit>
}

/** What follows when it refuses; `count`: it never refuses, and counts all the same. */
export type CounterOver = Over['kind'] | 'count'

/** The counter of a limit; undefined where it bounds nothing, `max: unlimited`. */
export function createCounter(entry: LimitEntry, over: CounterOver): Counter | undefined {
  // what is not per recipient has a subject for each value set, and one stream in it
  const fields = isPerRecipient(entry) ? valueFields(entry) : noFields
  return counter(entry.name, flush(selectorText(entry.selector), streamLengthMax), entry, over, fields)
}

/** The counter of the limit that only critical notifications meet, per recipient. */
export function createCriticalCounter(bounds: Bounds): Counter | undefined {
  return counter(criticalName, criticalName, bounds, bounds.over.kind, noFields)
}

function counter(
  name: string,
  stream: string,
  { windows, minGapMs, countRefused }: Bounds,
  over: CounterOver,
  fields: readonly ValueField[],
): Counter | undefined {
  if (windows.length === 0 && minGapMs === undefined) return undefined
  const texts = windows.map((window) => window.text)
  const minGap = minGapMs === undefined ? {} : { minGap: formatDuration(minGapMs) }
  // what drops, digests or falls back does not wait: the limiter refuses, and the strongest of the refusing decides
  const limiterOver = over === 'delay' || over === 'count' ? over : 'refuse'
  return {
    limit: limit(name, texts, { stream, over: limiterOver, countRefused, ...minGap }),
    fields,
    byValues: new Segments(valuesMax),
  }
}

export function isPerRecipient(entry: LimitEntry): boolean {
  return entry.per.includes('recipient')
}

/** What it counts by, beside the recipient and the tenant. */
export function valueFields(entry: LimitEntry): readonly ValueField[] {
  return entry.per.filter((field) => field !== 'recipient' && field !== 'tenant')
}

/**
 * The limit over the stream of these values. The limiter wants different names within a call: where one limit
 * counts for several authors, `author` marks those after the first.
 */
export function limitFor(counter: Counter, values: Values, author?: string): Limit {
  if (counter.fields.length === 0) return counter.limit
  const text = valuesText(counter.fields, values)
  let made = counter.byValues.get(text)
  if (made === undefined) {
    made = onStream(counter.limit, flush(`${counter.limit.stream}|${text}`, streamLengthMax))
    counter.byValues.set(text, made)
  }
  return author === undefined ? made : Object.freeze({ ...made, name: `${made.name}${authorMark}${author}` })
}

/** The policy's name of a limit that may be marked with an author. */
export function limitName(name: string): string {
  const mark = name.indexOf(authorMark)
  return mark < 0 ? name : name.slice(0, mark)
}

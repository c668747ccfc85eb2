/**
 * The counter of a policy's limit: the limiter's limit over one stream, or over one stream for each set of
 * values (an author, a channel) where `per` names more than the subject. Counters are made once for a policy;
 * the same values always give the same limit object, so that the limiter recognises it.
 */
import { formatDuration, type Limit, limit, onStream } from '@sluice/limits'
import { Segments } from './cache.ts'
import type { Bounds, LimitEntry } from './document.ts'
import { flush } from './hash.ts'
import type { Over } from './policy.ts'
import type { ValueField } from './selector.ts'
import { selectorText, type Values, valuesText } from './selector.ts'

/** The name and stream of the limit for critical notifications. No selector has this text. */
export const criticalName = 'critical'

/** Limits that are cached by their values, in each of two generations: a few hundred bytes each. */
export const valuesMax = 2_000

/** The limiter takes streams of up to 512 characters. */
const streamLengthMax = 512

/** Separates a limit's name from an author where one call counts for several. No name of a policy holds it. */
const authorMark = '\u001f'

const noFields: readonly ValueField[] = []

export interface Counter {
  readonly limit: Limit
  /** The fields that distinguish its streams within the subject, in canonical order. */
  readonly fields: readonly ValueField[]
  readonly byValues: Segments<Limit>
}

/** The outcome when it refuses; `count`: it never refuses, but counts all the same. */
export type CounterOver = Over['kind'] | 'count'

/** Creates the counter of a limit; undefined where it bounds nothing, `max: unlimited`. */
export function createCounter(entry: LimitEntry, over: CounterOver): Counter | undefined {
  // a limit that is not per recipient has a subject for each value set, and one stream in it
  const fields = isPerRecipient(entry) ? valueFields(entry) : noFields
  return counter(entry.name, flush(selectorText(entry.selector), streamLengthMax), entry, over, fields)
}

/** Creates the counter of the limit on critical notifications, per recipient. */
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
  // a limit that drops, digests or falls back does not wait: the limiter refuses, and the strongest of the
  // refusing limits decides
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

/** The fields that it counts by, beside the recipient and the tenant. */
export function valueFields(entry: LimitEntry): readonly ValueField[] {
  return entry.per.filter((field) => field !== 'recipient' && field !== 'tenant')
}

/**
 * Returns the limit over the stream of these values. The limiter needs different names within a call: where one
 * limit counts for several authors, `author` marks those after the first.
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

/** Returns the policy's name of a limit that may be marked with an author. */
export function limitName(name: string): string {
  const mark = name.indexOf(authorMark)
  return mark < 0 ? name : name.slice(0, mark)
}

/**
 * Which limits count a notification, and under whose key. A limit is a selector with bounds; what it counts is a
 * stream, named by the selector and the values of `per`. All of a person's streams live under the person's subject;
 * a limit that is not per recipient has a subject of its own. Notifications of one kind get the same array of the
 * same limits again and again, which is what lets the limiter compile it once.
 */
import { formatDuration, type Limit, limit, onStream } from '@sluice/limits'
import type { RecipientFields } from '../model.ts'
import type { Countable, Subject } from '../ports.ts'
import { Generations } from './cache.ts'
import type { Bounds, LimitEntry } from './document.ts'
import { fnv64 } from './hash.ts'
import { createLookup } from './lookup.ts'
import type { SubjectRules } from './policy.ts'
import { address } from './preferences.ts'
import type { Selectable, Selector, ValueField } from './selector.ts'
import { authorsOf, namesCategoryOrChannel, selectorText, suits, valuesText } from './selector.ts'

/** The name and stream of the limit for critical notifications. No selector's text reads so. */
export const criticalName = 'critical'

/** Limits and arrays that are remembered by their values (an author, an address), per limit and kind. */
const valuesMax = 5_000

/** The limits package takes streams of up to 512 characters. */
const streamLengthMax = 500

/** Stands between a limit's name and an author where one call counts for several; no name holds it. */
const authorMark = '\u001f'

/** The policy's name of a limit, where a decision names it once for every author of a digest. */
export function limitName(name: string): string {
  const mark = name.indexOf(authorMark)
  return mark < 0 ? name : name.slice(0, mark)
}

/** The subject under which everything about a person is counted. */
export function personSubject(tenant: string, recipient: string): Subject {
  return { key: `${encodeKey(tenant)}/${encodeKey(recipient)}`, tenant, recipient }
}

const plain = /^[\w.-]+$/

/** As encodeURIComponent, which is slower for the ids that need nothing and throws on half a character. */
function encodeKey(text: string): string {
  if (plain.test(text)) return text
  return text.isWellFormed() ? encodeURIComponent(text) : `%${encodeURIComponent(JSON.stringify(text))}`
}

type Values = Readonly<Partial<Record<ValueField, string>>>

/** One limit of the policy as it counts notifications of one kind. */
interface Counter {
  readonly limit: Limit
  /** What distinguishes its streams within the subject, in canonical order. */
  readonly fields: readonly ValueField[]
  readonly byValues: Generations<Limit>
}

/** The counters that share a subject. */
interface Group {
  readonly counters: readonly Counter[]
  /** What names the subject beside the tenant; undefined for the person's. */
  readonly subjectFields: readonly ValueField[] | undefined
  /** All values that its limits depend on. */
  readonly fields: readonly ValueField[]
  /** The limits where they depend on no value. */
  readonly fixed: readonly Limit[] | undefined
  readonly byValues: Generations<readonly Limit[]>
}

interface Kind {
  readonly person: Group
  readonly elsewhere: readonly Group[]
}

export interface CountingOptions {
  readonly limits: readonly LimitEntry[]
  /** Absent: critical notifications are bounded by nothing. */
  readonly critical: Bounds | undefined
}

export type Counting = (countable: Countable, person?: RecipientFields | null) => readonly SubjectRules[]

/** Makes `rulesFor` of a policy. */
export function createCounting({ limits, critical }: CountingOptions): Counting {
  const urgent: Selector = { kind: 'fields', fields: { priority: ['critical'] } }
  const kindOf = createLookup<Kind>([...limits.map((entry) => entry.selector), urgent], (of) => {
    const counters = matching(limits, of).map((entry) => ({ entry, counter: counterOf(entry, of) }))
    const first = of.priority === 'critical' && critical !== undefined ? criticalCounters(critical) : []
    return groups(first, counters)
  })

  return (countable, person) => {
    const kind = kindOf(countable)
    const own: SubjectRules = {
      subject: personSubject(countable.tenant, countable.to.id),
      rules: kind.person.fixed ?? rulesByValues(kind.person, countable, person),
    }
    if (kind.elsewhere.length === 0) return [own]
    return [...kind.elsewhere.flatMap((group) => rulesElsewhere(group, countable, person)), own]
  }
}

/** The limits that count a notification; `otherwise` where none that names a category or channel does. */
export function matching(limits: readonly LimitEntry[], of: Selectable): readonly LimitEntry[] {
  const named = limits.some(({ selector }) => namesCategoryOrChannel(selector) && suits(selector, of))
  return limits.filter(({ selector }) => (selector.kind === 'otherwise' ? !named : suits(selector, of)))
}

// ---- making the counters of a kind

const noFields: readonly ValueField[] = []

function counterOf(entry: LimitEntry, of: Selectable): Counter | undefined {
  const over = of.priority === 'critical' ? 'count' : entry.over.kind === 'delay' ? 'delay' : 'refuse'
  return counter(
    entry.name,
    foldStream(selectorText(entry.selector)),
    entry,
    over,
    isPersonal(entry) ? valueFields(entry) : noFields,
  )
}

function criticalCounters(bounds: Bounds): readonly Counter[] {
  const made = counter(
    criticalName,
    criticalName,
    bounds,
    bounds.over.kind === 'delay' ? 'delay' : 'refuse',
    noFields,
  )
  return made === undefined ? [] : [made]
}

/** Undefined where nothing is bounded: `max: unlimited`. */
function counter(
  name: string,
  stream: string,
  { windows, minGapMs }: Bounds,
  over: Limit['over'],
  fields: readonly ValueField[],
): Counter | undefined {
  if (windows.length === 0 && minGapMs === undefined) return undefined
  const texts = windows.map((window) => window.text)
  const minGap = minGapMs === undefined ? {} : { minGap: formatDuration(minGapMs) }
  return {
    limit: limit(name, texts, { stream, over, ...minGap }),
    fields,
    byValues: new Generations(valuesMax),
  }
}

function isPersonal(entry: LimitEntry): boolean {
  return entry.per.includes('recipient')
}

function valueFields(entry: LimitEntry): readonly ValueField[] {
  return entry.per.filter((field) => field !== 'recipient' && field !== 'tenant')
}

function groups(
  first: readonly Counter[],
  matched: readonly { readonly entry: LimitEntry; readonly counter: Counter | undefined }[],
): Kind {
  const personal = [...first]
  const elsewhere = new Map<string, { fields: readonly ValueField[]; counters: Counter[] }>()
  for (const { entry, counter } of matched) {
    if (counter === undefined) continue
    if (isPersonal(entry)) {
      personal.push(counter)
      continue
    }
    const fields = valueFields(entry)
    const key = fields.join()
    const found = elsewhere.get(key) ?? { fields, counters: [] }
    found.counters.push(counter)
    elsewhere.set(key, found)
  }
  return {
    person: groupOf(personal, undefined),
    elsewhere: [...elsewhere.values()].map(({ counters, fields }) => groupOf(counters, fields)),
  }
}

function groupOf(counters: readonly Counter[], subjectFields: readonly ValueField[] | undefined): Group {
  const fields = [...new Set(counters.flatMap((counter) => counter.fields))].sort()
  const fixed = fields.length === 0 ? counters.map((counter) => counter.limit) : undefined
  return { counters, subjectFields, fields, fixed, byValues: new Generations(valuesMax) }
}

// ---- the values of a notification

function valueOf(
  field: ValueField,
  of: Countable,
  author: string,
  person: RecipientFields | null | undefined,
): string {
  switch (field) {
    case 'actor':
      return author
    case 'address': {
      const where = address(of.to, person, of.channel) ?? ''
      return of.channel === 'email' ? where.toLowerCase() : where
    }
    default:
      return of[field] ?? ''
  }
}

function valuesOf(
  fields: readonly ValueField[],
  of: Countable,
  author: string,
  person: RecipientFields | null | undefined,
): Values {
  const values: Partial<Record<ValueField, string>> = {}
  for (const field of fields) values[field] = valueOf(field, of, author, person)
  return values
}

/** The limits of a group whose streams depend on values of the notification: on its authors, for one. */
function rulesByValues(
  group: Group,
  of: Countable,
  person: RecipientFields | null | undefined,
): readonly Limit[] {
  const authors = authorsOf(of)
  const values = authors.map((author) => valuesOf(group.fields, of, author, person))
  if (authors.length > 1 && group.fields.includes('actor')) {
    return group.counters.flatMap((counter) =>
      counter.fields.includes('actor')
        ? values.map((each, index) => limitFor(counter, each, index === 0 ? '' : authors[index]!))
        : [limitFor(counter, values[0]!, '')],
    )
  }
  const key = valuesText(group.fields, values[0]!)
  let rules = group.byValues.get(key)
  if (rules === undefined) {
    rules = group.counters.map((counter) => limitFor(counter, values[0]!, ''))
    group.byValues.set(key, rules)
  }
  return rules
}

/** The limit over the stream of these values. The limiter wants names to differ within a call: authors mark them. */
function limitFor(counter: Counter, values: Values, author: string): Limit {
  if (counter.fields.length === 0) return counter.limit
  const text = valuesText(counter.fields, values)
  let made = counter.byValues.get(text)
  if (made === undefined) {
    made = onStream(counter.limit, foldStream(`${counter.limit.stream}|${text}`))
    counter.byValues.set(text, made)
  }
  return author === '' ? made : Object.freeze({ ...made, name: `${made.name}${authorMark}${author}` })
}

/** One subject for each set of values; several where the authors of a digest are counted by themselves. */
function rulesElsewhere(
  group: Group,
  of: Countable,
  person: RecipientFields | null | undefined,
): readonly SubjectRules[] {
  const fields = group.subjectFields!
  const authors = fields.includes('actor') ? authorsOf(of) : ['']
  return authors.map((author) => {
    // the second slash keeps it apart from every person's key
    const key = `${encodeKey(of.tenant)}//${valuesText(fields, valuesOf(fields, of, author, person))}`
    return { subject: { key, tenant: of.tenant }, rules: group.fixed! }
  })
}

/** A stream's name that fits: what is too long keeps its beginning and ends in its hash. */
function foldStream(text: string): string {
  if (text.length <= streamLengthMax) return text
  return `${text.slice(0, 440)}#${text.length}#${fnv64(text)}${fnv64(`${text.length}${text}`)}`
}

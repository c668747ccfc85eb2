/**
 * Finds the limits that count a notification, and their subjects. All streams of a recipient live under the
 * recipient's subject; a limit that is not per recipient has a subject of its own for each value set.
 * Notifications of one kind get the same array of the same limits again and again, so that the limiter compiles
 * it once.
 */
import type { Limit } from '@sluice/limits'
import type { RecipientFields } from '../model.ts'
import type { Countable } from '../ports.ts'
import { Segments } from './cache.ts'
import type { Counter, CounterOver } from './counter.ts'
import {
  createCounter,
  createCriticalCounter,
  isPerRecipient,
  limitFor,
  valueFields,
  valuesMax,
} from './counter.ts'
import type { Bounds, LimitEntry } from './document.ts'
import { createLookup } from './lookup.ts'
import type { SubjectRules } from './policy.ts'
import { address } from './preferences.ts'
import type { Selectable, Selector, ValueField, Values } from './selector.ts'
import { authorsOf, namesCategoryOrChannel, suits, valuesText } from './selector.ts'
import { recipientSubject, valuesSubject } from './subject.ts'

export interface CountingOptions {
  readonly limits: readonly LimitEntry[]
  /** Absent: critical notifications have no limit. */
  readonly critical: Bounds | undefined
}

export type Counting = (countable: Countable, recipient?: CountedRecipient) => readonly SubjectRules[]

/** The stored fields of a recipient, by whose values some limits count. */
type CountedRecipient = RecipientFields | null | undefined

/** The counters that share a subject. */
interface Group {
  readonly counters: readonly Counter[]
  /** All fields that its limits depend on, in canonical order. */
  readonly fields: readonly ValueField[]
  /** The limits, where they depend on no value. */
  readonly fixed: readonly Limit[] | undefined
  readonly byValues: Segments<readonly Limit[]>
}

/** Limits that are not per recipient: one subject for each set of these values. */
interface Elsewhere {
  readonly subjectFields: readonly ValueField[]
  readonly rules: readonly Limit[]
}

interface Kind {
  readonly recipient: Group
  readonly elsewhere: readonly Elsewhere[]
}

interface Counted {
  readonly entry: LimitEntry
  readonly counter: Counter
}

/**
 * Makes critical notifications a kind of their own: all limits count them, and only the critical limit refuses.
 */
const criticalOnly: Selector = { kind: 'fields', fields: { priority: ['critical'] } }

/** Creates `rulesFor` of a policy. */
export function createCounting({ limits, critical }: CountingOptions): Counting {
  const usual = countersOf(limits, (entry) => entry.over.kind)
  let urgent: readonly Counted[] | undefined
  const safety = critical && createCriticalCounter(critical)

  const kindOf = createLookup<Kind>([...limits.map((entry) => entry.selector), criticalOnly], (of) => {
    const matched = new Set(matching(limits, of))
    if (of.priority !== 'critical') return kindWith(usual.filter(({ entry }) => matched.has(entry)))
    urgent ??= countersOf(limits, () => 'count')
    return kindWith(
      urgent.filter(({ entry }) => matched.has(entry)),
      safety,
    )
  })

  return (countable, recipient) => {
    const kind = kindOf(countable)
    const own: SubjectRules = {
      subject: recipientSubject(countable.tenant, countable.to.id),
      rules: kind.recipient.fixed ?? rulesByValues(kind.recipient, countable, recipient),
    }
    if (kind.elsewhere.length === 0) return [own]
    return [...kind.elsewhere.flatMap((group) => rulesElsewhere(group, countable, recipient)), own]
  }
}

/**
 * Finds the limits that count a notification; `otherwise` where no limit that names a category or channel does.
 */
function matching(limits: readonly LimitEntry[], of: Selectable): readonly LimitEntry[] {
  const named = limits.some(({ selector }) => namesCategoryOrChannel(selector) && suits(selector, of))
  return limits.filter(({ selector }) => (selector.kind === 'otherwise' ? !named : suits(selector, of)))
}

function countersOf(
  limits: readonly LimitEntry[],
  overOf: (entry: LimitEntry) => CounterOver,
): readonly Counted[] {
  return limits.flatMap((entry) => {
    const counter = createCounter(entry, overOf(entry))
    return counter === undefined ? [] : [{ entry, counter }]
  })
}

/** Groups the counters of a kind by subject; limits with the same fields share theirs. */
function kindWith(counted: readonly Counted[], safety?: Counter): Kind {
  const personal = counted.filter(({ entry }) => isPerRecipient(entry)).map(({ counter }) => counter)
  const others = Map.groupBy(
    counted.filter(({ entry }) => !isPerRecipient(entry)),
    ({ entry }) => valueFields(entry).join(),
  )
  return {
    recipient: groupOf(safety === undefined ? personal : [safety, ...personal]),
    elsewhere: [...others.values()].map((group) => ({
      subjectFields: valueFields(group[0]!.entry),
      rules: group.map(({ counter }) => counter.limit),
    })),
  }
}

function groupOf(counters: readonly Counter[]): Group {
  const fields = [...new Set(counters.flatMap((counter) => counter.fields))].sort()
  const fixed = fields.length === 0 ? counters.map((counter) => counter.limit) : undefined
  return { counters, fields, fixed, byValues: new Segments(valuesMax) }
}

/** The limits of a recipient whose streams depend on values of the notification, such as its authors. */
function rulesByValues(group: Group, of: Countable, recipient: CountedRecipient): readonly Limit[] {
  const authors = group.fields.includes('actor') ? authorsOf(of) : ['']
  const values = valuesOf(group.fields, of, authors[0]!, recipient)
  if (authors.length > 1) return rulesByAuthor(group, values, authors)
  const key = valuesText(group.fields, values)
  let rules = group.byValues.get(key)
  if (rules === undefined) {
    rules = group.counters.map((counter) => limitFor(counter, values))
    group.byValues.set(key, rules)
  }
  return rules
}

/** Counts a digest once for each of its authors in limits per author; other limits count it once. */
function rulesByAuthor(group: Group, values: Values, authors: readonly string[]): readonly Limit[] {
  return group.counters.flatMap((counter) =>
    counter.fields.includes('actor')
      ? authors.map((actor, index) =>
          limitFor(counter, { ...values, actor }, index === 0 ? undefined : actor),
        )
      : [limitFor(counter, values)],
  )
}

function rulesElsewhere(
  { subjectFields, rules }: Elsewhere,
  of: Countable,
  recipient: CountedRecipient,
): readonly SubjectRules[] {
  const authors = subjectFields.includes('actor') ? authorsOf(of) : ['']
  return authors.map((author) => ({
    subject: valuesSubject(
      of.tenant,
      valuesText(subjectFields, valuesOf(subjectFields, of, author, recipient)),
    ),
    rules,
  }))
}

function valuesOf(
  fields: readonly ValueField[],
  of: Countable,
  author: string,
  recipient: CountedRecipient,
): Values {
  const values: Partial<Record<ValueField, string>> = {}
  for (const field of fields) {
    if (field === 'actor') values.actor = author
    else if (field === 'address') values.address = addressOf(of, recipient)
    else values[field] = of[field] ?? ''
  }
  return values
}

/**
 * Normalises the address for limits per address: mail addresses count without regard to case, since no two
 * mailboxes differ in it alone.
 */
function addressOf(of: Countable, recipient: CountedRecipient): string {
  const found = address(of.to, recipient, of.channel) ?? ''
  return of.channel === 'email' ? found.toLowerCase() : found
}

/**
 * Reads the policy's document: from anything that a YAML file or a request may hold to typed sections, with
 * every mistake noted at its path. A section that is missing is off. The form is described in the default
 * policy (packages/gateway/policy/default.yaml) and in docs/guides/policies.md.
 */
import { allowedToQuiet, isTimeZone, parseWallTime, type Window } from '@sluice/limits'
import type { Channel, Priority, QuietWindow } from '../model.ts'
import { channels, priorities } from '../model.ts'
import type { ComplaintRules } from './complaint-guard.ts'
import { readComplaints } from './complaint-rules.ts'
import type { Faults, Fields } from './faults.ts'
import { join, oneOf, readCount, readFields, readList, readText, readTexts, show } from './faults.ts'
import { readOnStateLost } from './on-state-lost.ts'
import type { Over, StateLost } from './policy.ts'
import { attempt, dayMs, readDuration, readWindows, windowMsMax } from './rates.ts'
import type { PerField, Selector, SelectorField } from './selector.ts'
import { perFields, selectorFields } from './selector.ts'

/** Bounds of a policy: more is a mistake, and reading it would cost more than it says. */
const limitsMax = 1_000
const digestsMax = 1_000
const legalMax = 1_000

const delayMsMax = 366 * dayMs

/** The windows of a limit, and the outcome beyond them. */
export interface Bounds {
  /** Empty: unlimited. */
  readonly windows: readonly Window[]
  readonly minGapMs: number | undefined
  /** True where dropped notifications count too. */
  readonly countRefused: boolean
  readonly over: Over
}

export interface LimitEntry extends Bounds {
  /** Its path in the document: `limits[3]`. */
  readonly path: string
  readonly name: string
  readonly selector: Selector
  /** In canonical order, without duplicates. */
  readonly per: readonly PerField[]
}

export interface DigestEntry {
  readonly path: string
  readonly name: string
  readonly selector: Selector
  readonly windowMs: number
  readonly minItems: number
  readonly maxItems: number
  readonly template: string
}

export interface LegalEntry {
  /** Absent: every channel. */
  readonly channel: readonly string[] | undefined
  readonly category: readonly string[] | undefined
  /** The quiet hours: those outside the allowed ones. */
  readonly quiet: QuietWindow
}

export interface QuietEntry {
  readonly byDefault:
    | (QuietWindow & { readonly channels: readonly string[]; readonly except: readonly string[] })
    | undefined
  readonly legal: readonly LegalEntry[]
  readonly unknownTimeZone: string
  readonly spreadMs: number
}

export interface PolicyDocument {
  readonly name: string | undefined
  readonly limits: readonly LimitEntry[]
  readonly digests: readonly DigestEntry[]
  readonly deduplicationWindowMs: number | undefined
  readonly quietHours: QuietEntry | undefined
  readonly critical: Bounds | undefined
  readonly complaints: ComplaintRules | undefined
  readonly onStateLost: ReadonlyMap<string, StateLost>
  readonly maxDelayMs: number
}

/** Reads all sections. Where `faults` has an entry, the result is incomplete and must not be used. */
export function readDocument(value: unknown, faults: Faults): PolicyDocument {
  const known = [
    'version',
    'name',
    'limits',
    'digests',
    'deduplication',
    'quietHours',
    'critical',
    'complaints',
    'onStateLost',
    'maxDelay',
  ]
  const fields: Fields = readFields(value, '', known, faults) ?? {}
  if (fields.version !== undefined && fields.version !== 1) {
    faults.add('version', `expected 1, the only form there is; this is ${show(fields.version)}`)
  }
  return {
    name: fields.name === undefined ? undefined : readText(fields.name, 'name', faults),
    limits: readEntries(fields.limits, 'limits', limitsMax, faults, readLimit),
    digests: readEntries(fields.digests, 'digests', digestsMax, faults, readDigest),
    deduplicationWindowMs: readDeduplication(fields.deduplication, faults),
    quietHours: fields.quietHours === undefined ? undefined : readQuietHours(fields.quietHours, faults),
    critical: fields.critical === undefined ? undefined : readCritical(fields.critical, faults),
    complaints: fields.complaints === undefined ? undefined : readComplaints(fields.complaints, faults),
    onStateLost: fields.onStateLost === undefined ? new Map() : readOnStateLost(fields.onStateLost, faults),
    maxDelayMs: durationOr(7 * dayMs, fields.maxDelay, 'maxDelay', delayMsMax, faults),
  }
}

function readEntries<T>(
  value: unknown,
  path: string,
  sizeMax: number,
  faults: Faults,
  read: (value: unknown, path: string, faults: Faults) => T | undefined,
): readonly T[] {
  if (value === undefined) return []
  const list = readList(value, path, sizeMax, faults) ?? []
  return list
    .map((entry, index) => read(entry, `${path}[${index}]`, faults))
    .filter((entry): entry is T & {} => entry !== undefined)
}

function durationOr(
  missingMs: number,
  value: unknown,
  path: string,
  maxMs: number,
  faults: Faults,
  minMs = 1,
): number {
  return value === undefined ? missingMs : (readDuration(value, path, maxMs, faults, minMs) ?? missingMs)
}

// ---- limits

function readLimit(value: unknown, path: string, faults: Faults): LimitEntry | undefined {
  const fields = readFields(
    value,
    path,
    ['name', 'for', 'per', 'max', 'minGap', 'over', 'countRefused'],
    faults,
  )
  if (fields === undefined) return undefined
  const name = readText(fields.name, join(path, 'name'), faults)
  const selector = readSelector(fields.for, join(path, 'for'), faults)
  const per =
    fields.per === undefined
      ? ['recipient']
      : readTexts(fields.per, join(path, 'per'), faults, oneOf(perFields))
  const bounds = readBounds(fields, path, faults)
  if (name === undefined || selector === undefined || per === undefined || bounds === undefined)
    return undefined
  // every limit is within its tenant: beside another field `tenant` changes nothing
  const counted = per.length > 1 ? per.filter((field) => field !== 'tenant') : per
  return { path, name, selector, per: counted as readonly PerField[], ...bounds }
}

function readBounds(fields: Fields, path: string, faults: Faults): Bounds | undefined {
  if (fields.max === undefined && fields.minGap === undefined) {
    return faults.add(
      path,
      'bounds nothing: expected max (such as [2/day, 5/week], or unlimited), minGap, or both',
    )
  }
  const windows = fields.max === undefined ? [] : readWindows(fields.max, join(path, 'max'), faults)
  const minGapMs =
    fields.minGap === undefined
      ? undefined
      : readDuration(fields.minGap, join(path, 'minGap'), windowMsMax, faults)
  const over =
    fields.over === undefined
      ? ({ kind: 'delay' } as const)
      : readOver(fields.over, join(path, 'over'), faults)
  const { countRefused = false } = fields
  if (typeof countRefused !== 'boolean')
    return faults.add(join(path, 'countRefused'), `expected true or false; this is ${show(countRefused)}`)
  if (windows === undefined || over === undefined) return undefined
  if (countRefused && over.kind !== 'drop')
    return faults.add(
      join(path, 'countRefused'),
      'belongs to over: drop: what waits, is collected or diverted counts once it leaves',
    )
  return { windows, minGapMs, over, countRefused }
}

function readOver(value: unknown, path: string, faults: Faults): Over | undefined {
  const text = readText(value, path, faults)
  if (text === undefined) return undefined
  if (text === 'delay' || text === 'drop') return { kind: text }
  if (text.startsWith('digest:') && text.length > 7) return { kind: 'digest', digest: text.slice(7).trim() }
  if (!text.startsWith('fallback:')) {
    return faults.add(
      path,
      `expected delay, drop, digest:<name> or fallback:<channel>; this is ${show(text)}`,
    )
  }
  const channel = text.slice(9).trim()
  if (isChannel(channel)) return { kind: 'fallback', channel }
  return faults.add(path, `${show(channel)} is no channel; channels are ${channels.join(', ')}`)
}

function isChannel(text: string): text is Channel {
  return (channels as readonly string[]).includes(text)
}

function readSelector(value: unknown, path: string, faults: Faults): Selector | undefined {
  if (value === 'any' || value === 'otherwise') return { kind: value }
  if (typeof value !== 'object') {
    return faults.add(
      path,
      `expected any, otherwise, or an object with ${selectorFields.join(', ')}; this is ${show(value)}`,
    )
  }
  const given = readFields(value, path, selectorFields, faults)
  if (given === undefined) return undefined
  const fields: Partial<Record<SelectorField, readonly string[]>> = {}
  for (const field of selectorFields) {
    if (given[field] === undefined) continue
    const texts = readTexts(given[field], join(path, field), faults, checkOf[field])
    if (texts === undefined) return undefined
    fields[field] = texts
  }
  if (Object.keys(fields).length > 0) return { kind: 'fields', fields }
  return faults.add(path, `names none of ${selectorFields.join(', ')}; what counts everything says any`)
}

const anyText = (): undefined => undefined
const checkOf: Record<SelectorField, (text: string) => string | undefined> = {
  category: anyText,
  channel: oneOf(channels),
  module: anyText,
  priority: oneOf(priorities satisfies readonly Priority[]),
  template: anyText,
}

// ---- the other sections

function readDigest(value: unknown, path: string, faults: Faults): DigestEntry | undefined {
  const fields = readFields(
    value,
    path,
    ['name', 'for', 'window', 'minItems', 'maxItems', 'template'],
    faults,
  )
  if (fields === undefined) return undefined
  const name = readText(fields.name, join(path, 'name'), faults)
  const selector = readSelector(fields.for, join(path, 'for'), faults)
  if (selector?.kind === 'otherwise') faults.add(join(path, 'for'), 'otherwise is for limits only')
  const windowMs = readDuration(fields.window, join(path, 'window'), windowMsMax, faults)
  const countOr = (missing: number, field: 'minItems' | 'maxItems') =>
    fields[field] === undefined ? missing : readCount(fields[field], join(path, field), 10_000, faults)
  const minItems = countOr(2, 'minItems')
  const maxItems = countOr(100, 'maxItems')
  if (minItems !== undefined && maxItems !== undefined && minItems > maxItems) {
    faults.add(join(path, 'minItems'), `${minItems} is more than maxItems, ${maxItems}`)
  }
  const template = readText(fields.template, join(path, 'template'), faults)
  if (name === undefined || selector === undefined || windowMs === undefined) return undefined
  if (minItems === undefined || maxItems === undefined || template === undefined) return undefined
  return { path, name, selector, windowMs, minItems, maxItems, template }
}

function readDeduplication(value: unknown, faults: Faults): number | undefined {
  if (value === undefined) return undefined
  const fields = readFields(value, 'deduplication', ['window'], faults)
  return fields && readDuration(fields.window, 'deduplication.window', windowMsMax, faults)
}

function readCritical(value: unknown, faults: Faults): PolicyDocument['critical'] {
  const fields = readFields(value, 'critical', ['max', 'minGap', 'over'], faults)
  const bounds = fields && readBounds(fields, 'critical', faults)
  if (bounds !== undefined && bounds.over.kind !== 'delay' && bounds.over.kind !== 'drop') {
    return faults.add(
      'critical.over',
      'expected delay or drop: what is critical is neither collected nor diverted',
    )
  }
  return bounds
}

function readQuietHours(value: unknown, faults: Faults): QuietEntry | undefined {
  const fields = readFields(value, 'quietHours', ['default', 'legal', 'unknownTimeZone', 'spread'], faults)
  if (fields === undefined) return undefined
  const zone = fields.unknownTimeZone ?? 'UTC'
  const unknownTimeZone = readText(zone, 'quietHours.unknownTimeZone', faults, (text) =>
    isTimeZone(text) ? undefined : `${show(text)} is no IANA time zone such as Europe/Rome or UTC`,
  )
  return {
    byDefault: fields.default === undefined ? undefined : readDefaultHours(fields.default, faults),
    legal: readEntries(fields.legal, 'quietHours.legal', legalMax, faults, readLegal),
    unknownTimeZone: unknownTimeZone ?? 'UTC',
    spreadMs: durationOr(0, fields.spread, 'quietHours.spread', dayMs, faults, 0),
  }
}

function readDefaultHours(value: unknown, faults: Faults): QuietEntry['byDefault'] {
  const path = 'quietHours.default'
  const fields = readFields(value, path, ['from', 'to', 'channels', 'except'], faults)
  if (fields === undefined) return undefined
  const from = readWallTime(fields.from, join(path, 'from'), faults)
  const to = readWallTime(fields.to, join(path, 'to'), faults)
  const listed =
    fields.channels === undefined
      ? [...channels].sort()
      : readTexts(fields.channels, join(path, 'channels'), faults, oneOf(channels))
  const except =
    fields.except === undefined || (Array.isArray(fields.except) && fields.except.length === 0)
      ? []
      : readTexts(fields.except, join(path, 'except'), faults, anyText)
  if (from === undefined || to === undefined || listed === undefined || except === undefined) return undefined
  return { from, to, channels: listed, except }
}

function readLegal(value: unknown, path: string, faults: Faults): LegalEntry | undefined {
  const fields = readFields(value, path, ['channel', 'category', 'allowed'], faults)
  if (fields === undefined) return undefined
  const channel =
    fields.channel === undefined
      ? undefined
      : readTexts(fields.channel, join(path, 'channel'), faults, oneOf(channels))
  const category =
    fields.category === undefined
      ? undefined
      : readTexts(fields.category, join(path, 'category'), faults, anyText)
  const allowed = readText(fields.allowed, join(path, 'allowed'), faults)
  if (allowed === undefined) return undefined
  const quiet = attempt(() => allowedToQuiet(allowed), join(path, 'allowed'), faults)
  return quiet && { channel, category, quiet }
}

function readWallTime(value: unknown, path: string, faults: Faults): string | undefined {
  const text = readText(value, path, faults)
  if (text === undefined) return undefined
  return attempt(() => parseWallTime(text), path, faults) === undefined ? undefined : text
}

/**
 * Writes out a policy: every default explicit, every list in order, every duration in its plainest unit. Two
 * documents with the same meaning are written the same, so the policy's version is the hash of this text. It is
 * itself a valid document with the same meaning. The name of the policy is not in it.
 */
import { formatDuration, formatWindow } from '@sluice/limits'
import type { JsonObject, JsonValue } from '../model.ts'
import { writeComplaints } from './complaint-rules.ts'
import type { Bounds, DigestEntry, LegalEntry, LimitEntry, PolicyDocument } from './document.ts'
import type { Over } from './policy.ts'
import type { Selector } from './selector.ts'

export function writeDocument(document: PolicyDocument): JsonObject {
  const { deduplicationWindowMs, quietHours, critical, complaints } = document
  return {
    version: 1,
    limits: document.limits.map(writeLimit),
    digests: document.digests.map(writeDigest),
    ...(deduplicationWindowMs === undefined
      ? {}
      : { deduplication: { window: formatDuration(deduplicationWindowMs) } }),
    ...(quietHours === undefined ? {} : { quietHours: writeQuietHours(quietHours) }),
    ...(critical === undefined ? {} : { critical: writeBounds(critical) }),
    ...(complaints === undefined ? {} : { complaints: writeComplaints(complaints) }),
    // Without entries it is left out: policies of before keep their version.
    ...(document.onStateLost.size === 0
      ? {}
      : { onStateLost: Object.fromEntries([...document.onStateLost].sort()) }),
    maxDelay: formatDuration(document.maxDelayMs),
  }
}

function writeOver(over: Over): string {
  switch (over.kind) {
    case 'digest':
      return `digest:${over.digest}`
    case 'fallback':
      return `fallback:${over.channel}`
    default:
      return over.kind
  }
}

function writeLimit(entry: LimitEntry): JsonObject {
  return { name: entry.name, for: writeSelector(entry.selector), per: entry.per, ...writeBounds(entry) }
}

function writeBounds({ windows, minGapMs, over, countRefused }: Bounds): JsonObject {
  return {
    max: windows.length === 0 ? 'unlimited' : windows.map(formatWindow),
    ...(minGapMs === undefined ? {} : { minGap: formatDuration(minGapMs) }),
    over: writeOver(over),
    ...(countRefused ? { countRefused } : {}),
  }
}

/** Writes a list of one as the value. */
function writeSelector(selector: Selector): JsonValue {
  if (selector.kind !== 'fields') return selector.kind
  return Object.fromEntries(
    Object.entries(selector.fields).map(([field, values]) => [
      field,
      values.length === 1 ? values[0]! : values,
    ]),
  )
}

function writeDigest({ name, selector, windowMs, minItems, maxItems, template }: DigestEntry): JsonObject {
  return {
    name,
    for: writeSelector(selector),
    window: formatDuration(windowMs),
    minItems,
    maxItems,
    template,
  }
}

function writeQuietHours({
  byDefault,
  legal,
  unknownTimeZone,
  spreadMs,
}: NonNullable<PolicyDocument['quietHours']>): JsonObject {
  return {
    ...(byDefault === undefined ? {} : { default: { ...byDefault } }),
    legal: legal.map(writeLegal),
    unknownTimeZone,
    ...(spreadMs === 0 ? {} : { spread: formatDuration(spreadMs) }),
  }
}

function writeLegal({ channel, category, quiet }: LegalEntry): JsonObject {
  return {
    ...(channel === undefined ? {} : { channel }),
    ...(category === undefined ? {} : { category }),
    allowed: `${quiet.to}-${quiet.from}`,
  }
}

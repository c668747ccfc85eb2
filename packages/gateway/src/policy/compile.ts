/**
 * Compiles a policy's document into a policy. Everything is checked and computed here, once; all mistakes are
 * reported together, each with its path, and nothing else is ever thrown.
 */

import { SluiceError } from '../errors.ts'
import type { Channel } from '../model.ts'
import { canonical } from './canonical.ts'
import { criticalName, limitName } from './counter.ts'
import { createCounting } from './counting.ts'
import type { DigestEntry, LimitEntry, PolicyDocument } from './document.ts'
import { readDocument } from './document.ts'
import { Faults } from './faults.ts'
import { fnv64 } from './hash.ts'
import { createLookup, namedMax, namedValues } from './lookup.ts'
import { sharedIn } from './on-state-lost.ts'
import type { DigestSpec, Over, Policy } from './policy.ts'
import { createQuietHours } from './quiet.ts'
import { selectorFields, suits } from './selector.ts'
import { writeDocument } from './written.ts'

/**
 * Compiles a policy. The document may be anything that a parsed file or request can hold.
 *
 * @throws SluiceError `INVALID_POLICY` with `errors: [{ path: 'limits[3].over', message }]`
 */
export function compilePolicy(document: unknown): Policy {
  const faults = new Faults()
  const read = readDocument(document, faults)
  checkNames(read, faults)
  checkOvers(read, faults)
  if (faults.found.length > 0) {
    const [first] = faults.found
    const more = faults.found.length > 1 ? ` (and ${faults.found.length - 1} more)` : ''
    throw new SluiceError(
      'INVALID_POLICY',
      `The policy is not valid: ${first!.path} ${first!.message}${more}`,
      {
        errors: faults.found,
      },
    )
  }
  return policyOf(read)
}

function policyOf(read: PolicyDocument): Policy {
  const written = writeDocument(read)
  const digests = new Map(read.digests.map((entry) => [entry.name, specOf(entry)]))
  const digestOf = createLookup(
    read.digests.map((entry) => entry.selector),
    (of) => ({ spec: digests.get(read.digests.find((entry) => suits(entry.selector, of))?.name ?? '') }),
  )
  return {
    version: fnv64(canonical(written)),
    ...(read.name === undefined ? {} : { name: read.name }),
    // A name means nothing to a decision: it has no part in the version.
    document: read.name === undefined ? written : { name: read.name, ...written },
    maxDelayMs: read.maxDelayMs,
    onStateLost: (category = 'default') =>
      read.onStateLost.get(category) ?? read.onStateLost.get('default') ?? 'hold',
    shared: sharedIn(read.onStateLost),
    deduplicationWindowMs: read.deduplicationWindowMs,
    complaints: read.complaints,
    spreadMs: read.quietHours?.spreadMs ?? 0,
    longestWindowMs: Math.max(0, ...windowsMsOf(read)),
    shortestWindowMs: Math.min(Number.POSITIVE_INFINITY, ...windowsMsOf(read)),
    countsRefused: read.limits.some((entry) => entry.countRefused),
    selectors: combinations(read.limits),
    rulesFor: createCounting(read),
    strongest: createStrongest(read),
    digestFor: (of) => (of.priority === 'critical' ? undefined : digestOf(of).spec),
    digest: (name) => digests.get(name),
    digests: [...digests.values()],
    quietFor: createQuietHours(read.quietHours),
  }
}

function specOf({ name, windowMs, minItems, maxItems, template }: DigestEntry): DigestSpec {
  return { name, windowMs, minItems, maxItems, template }
}

/** The lengths of all windows and distances. */
function windowsMsOf({ limits, critical }: PolicyDocument): readonly number[] {
  return (critical === undefined ? limits : [...limits, critical]).flatMap(({ windows, minGapMs }) => [
    ...windows.map(({ windowMs }) => windowMs),
    ...(minGapMs === undefined ? [] : [minGapMs]),
  ])
}

// ---- outcomes

const strength = { drop: 0, digest: 1, fallback: 2, delay: 3 } as const satisfies Record<Over['kind'], number>

function createStrongest({ limits, critical }: PolicyDocument): Policy['strongest'] {
  const ranked = [...(critical === undefined ? [] : [{ name: criticalName, over: critical.over }]), ...limits]
  const order = new Map(ranked.map(({ name, over }, index) => [name, { limit: name, over, index }]))

  return (names) => {
    let best: { readonly limit: string; readonly over: Over; readonly index: number } | undefined
    for (const name of names) {
      const found = order.get(limitName(name))
      if (found === undefined) continue
      const by = best === undefined ? -1 : strength[found.over.kind] - strength[best.over.kind]
      if (by < 0 || (by === 0 && found.index < best!.index)) best = found
    }
    // no limit refuses, or a limit of an older policy does: then it is delayed
    return best === undefined
      ? { limit: names[0] ?? '', over: { kind: 'delay' } }
      : { limit: best.limit, over: best.over }
  }
}

// ---- consistency of the sections

function checkNames({ limits, digests, critical }: PolicyDocument, faults: Faults): void {
  const taken = new Map<string, string>(critical === undefined ? [] : [[criticalName, 'critical']])
  for (const entries of [limits, digests]) {
    for (const { name, path } of entries) {
      const other = taken.get(name)
      if (other === undefined) taken.set(name, path)
      else faults.add(`${path}.name`, `${JSON.stringify(name)} is the name of ${other} already`)
    }
    taken.clear()
  }
  for (const [section, entries] of Object.entries({ limits, digests })) {
    const named = namedValues(entries.map((entry) => entry.selector))
    for (const field of selectorFields) {
      if (named[field].size > namedMax)
        faults.add(section, `name ${named[field].size} values of ${field}, at most ${namedMax} are carried`)
    }
  }
}

function checkOvers({ limits, digests }: PolicyDocument, faults: Faults): void {
  const names = digests.map((entry) => entry.name)
  // an invalid digest has no name here, and its mistake is noted already
  const complete = !faults.found.some((fault) => fault.path.startsWith('digests'))
  for (const { over, selector, path } of limits) {
    if (over.kind === 'digest' && complete && !names.includes(over.digest)) {
      const known = names.length === 0 ? 'there are no digests' : `there are ${names.slice(0, 20).join(', ')}`
      faults.add(`${path}.over`, `${JSON.stringify(over.digest)} is no digest of this policy; ${known}`)
    }
    if (over.kind !== 'fallback') continue
    const channels = selector.kind === 'fields' ? selector.fields.channel : undefined
    if (channels === undefined) {
      faults.add(
        `${path}.over`,
        'a fallback needs the channels that it falls back from: name them in for.channel',
      )
    } else if (channels.includes(over.channel)) {
      faults.add(`${path}.over`, `falls back to ${over.channel}, which the limit is for`)
    }
  }
}

// ---- selectors of limits

/** Rows at most; further ones are left out, since they serve an overview. */
const combinationsMax = 1_000

function combinations(limits: readonly LimitEntry[]): Policy['selectors'] {
  const rows = new Map<string, Policy['selectors'][number]>()
  for (const { selector } of limits) {
    // `any` and `otherwise` name nothing
    const {
      channel = [undefined],
      category = [undefined],
      template = [undefined],
    } = selector.kind === 'fields' ? selector.fields : {}
    for (const of of channel) {
      for (const kind of category) {
        for (const about of template) {
          if (rows.size >= combinationsMax) return [...rows.values()]
          rows.set(canonical([of, kind, about]), {
            ...(of === undefined ? {} : { channel: of as Channel }),
            ...(kind === undefined ? {} : { category: kind }),
            ...(about === undefined ? {} : { template: about }),
          })
        }
      }
    }
  }
  return [...rows.values()]
}

/** Expectations of a change of policy, for a check before it goes live: a file of `expect:` lines. */
import { type Static, Type } from '@sinclair/typebox'
import { misfits } from '../config/check.ts'
import { readDuration, readShare } from '../config/quantity.ts'
import { Source } from '../config/source.ts'
import { isSameWay, waitOf } from './compare.ts'
import type { Fate } from './fate.ts'
import type { TrafficLine } from './traffic.ts'

const word = Type.String({ minLength: 1, maxLength: 128, expects: 'a text' })
const line = Type.Union(
  [
    Type.Object(
      { unchanged: Type.Array(word, { minItems: 1, expects: 'a list of categories and priorities' }) },
      { additionalProperties: false },
    ),
    Type.Object({ waitAtMost: word, category: Type.Optional(word) }, { additionalProperties: false }),
    Type.Object({ fewerAtMost: word, category: Type.Optional(word) }, { additionalProperties: false }),
  ],
  { expects: 'unchanged: […], waitAtMost: <duration>, or fewerAtMost: <share>' },
)
const expectSchema = Type.Object(
  { expect: Type.Array(line, { minItems: 1, expects: 'a list of expectations' }) },
  { additionalProperties: false, expects: 'a file with expect: […]' },
)
export type Expectations = Static<typeof expectSchema>['expect']

export interface ExpectationResult {
  /** The expectation in a sentence. */
  readonly text: string
  readonly holds: boolean
  /** The figure that decided. */
  readonly found: string
}

interface Compared {
  readonly requests: readonly TrafficLine[]
  readonly a: readonly (Fate | undefined)[]
  readonly b: readonly (Fate | undefined)[]
  readonly messagesA: Readonly<Record<string, number>>
  readonly messagesB: Readonly<Record<string, number>>
}

/** @throws SluiceError INVALID_SCENARIO with every mistake, by line and field */
export function loadExpectations(file: string, cwd: string): Expectations {
  const source = new Source({ path: file, env: {}, cwd })
  const { problems } = source
  problems.throwIfAny('INVALID_SCENARIO')
  for (const { path, message } of misfits(expectSchema, source.value, new Map())) source.fault(path, message)
  problems.throwIfAny('INVALID_SCENARIO')
  const { expect } = source.value as Static<typeof expectSchema>
  for (const [index, each] of expect.entries()) {
    const check = (field: string, read: () => unknown): void => {
      try {
        read()
      } catch (error) {
        source.fault(['expect', index, field], (error as Error).message)
      }
    }
    if ('waitAtMost' in each) check('waitAtMost', () => readDuration(each.waitAtMost))
    if ('fewerAtMost' in each) check('fewerAtMost', () => readShare(each.fewerAtMost))
  }
  problems.throwIfAny('INVALID_SCENARIO')
  return expect
}

export function checkExpectations(
  expectations: Expectations,
  compared: Compared,
): readonly ExpectationResult[] {
  return expectations.map((expectation) => {
    if ('unchanged' in expectation) return unchanged(expectation.unchanged, compared)
    if ('waitAtMost' in expectation) return waitAtMost(expectation, compared)
    return fewerAtMost(expectation, compared)
  })
}

function unchanged(names: readonly string[], { requests, a, b }: Compared): ExpectationResult {
  const changed = requests.filter(
    ({ category, priority }, index) =>
      (names.includes(category) || names.includes(priority)) && !isSameWay(a[index], b[index]),
  ).length
  return {
    text: `nothing of ${names.join(', ')} changes`,
    holds: changed === 0,
    found: `${changed.toLocaleString('en')} changed`,
  }
}

interface WaitAtMost {
  readonly waitAtMost: string
  readonly category?: string
}

function waitAtMost(
  { waitAtMost: most, category }: WaitAtMost,
  { requests, b }: Compared,
): ExpectationResult {
  const mostMs = readDuration(most)
  const longer = requests.filter(
    (request, index) =>
      (category === undefined || request.category === category) && (waitOf(request, b[index]) ?? 0) > mostMs,
  ).length
  return {
    text: `nothing${category === undefined ? '' : ` of ${category}`} waits longer than ${most}`,
    holds: longer === 0,
    found: `${longer.toLocaleString('en')} wait longer`,
  }
}

interface FewerAtMost {
  readonly fewerAtMost: string
  readonly category?: string
}

function fewerAtMost(
  { fewerAtMost: most, category }: FewerAtMost,
  { messagesA, messagesB }: Compared,
): ExpectationResult {
  const sum = (messages: Readonly<Record<string, number>>): number =>
    category === undefined
      ? Object.values(messages).reduce((total, each) => total + each, 0)
      : (messages[category] ?? 0)
  const [before, after] = [sum(messagesA), sum(messagesB)]
  const fewer = before === 0 ? 0 : (before - after) / before
  return {
    text: `at most ${most} fewer${category === undefined ? '' : ` ${category}`} messages`,
    holds: fewer <= readShare(most),
    found: fewer > 0 ? `${(100 * fewer).toFixed(1)} % fewer` : `${(-100 * fewer).toFixed(1)} % more`,
  }
}

/**
 * What travels to the script. Plans and questions go as text whose numbers have digits of base 128: they are bytes to
 * the script and valid UTF-8 to every client, and a text costs a client less than a buffer.
 */
import { LimitsError } from '../errors.ts'
import type { Plan } from '../plan.ts'
import { type Priority, plainTerms, type Question, retainedMin, type Terms, unitsMax } from '../store.ts'

/** Instants have six bytes: up to the year 10,889. */
const instantMax = 2 ** 48 - 1
/** Seven digits; a horizon of this length is none. */
const horizonMax = 128 ** 7 - 1
/** What the script takes for infinity. */
export const never = 9e15

/** What the script calls the questions. */
export const letters = {
  take: 't',
  check: 'c',
  force: 'F',
  fire: 'f',
  reserve: 'r',
  preview: 'p',
  cancel: 'x',
  restore: 's',
  forget: 'd',
  has: 'h',
  block: 'b',
} as const

function digits(value: number, count: number): string {
  let text = ''
  for (let rest = value, place = 0; place < count; place += 1, rest = Math.floor(rest / 128)) {
    text = String.fromCharCode(rest % 128) + text
  }
  return text
}

const utf8 = /* @__PURE__ */ new TextEncoder()
const written = new WeakMap<Plan, WrittenPlan>()

export interface WrittenPlan {
  /** How a subject that knows this plan only begins in the store. */
  readonly header: string
  readonly rules: string
  /** The longest window, ms. */
  readonly longestMs: number
  /** The most bytes that the instants of these rules take: a stream is cut when it has twice what it retains. */
  readonly bytesMax: number
}

/**
 * A plan as the script reads it. The header: what is to be retained, and the streams in the order of their names.
 * The rules: how refusals count, those that decide with the smallest count first for the quick way, and all of them
 * in their own order with their streams.
 */
export function writePlan(plan: Plan): WrittenPlan {
  const known = written.get(plan)
  if (known !== undefined) return known
  const streams = plan.streams.toSorted((a, b) => (a < b ? -1 : 1))
  const names = streams.map((name) => digits(utf8.encode(name).length, 2) + name).join('')
  const retained = Math.max(retainedMin, ...plan.rules.map(({ maxWritten }) => 2 * maxWritten))
  const longestMs = Math.max(0, ...plan.rules.map(({ windowMs }) => windowMs))
  const header = `A${digits(retained, 3)}${digits(longestMs, 5)}${digits(utf8.encode(names).length, 3)}${names}`
  const made = { header, rules: writeRules(plan, streams), longestMs, bytesMax: 12 * retained }
  written.set(plan, made)
  return made
}

function writeRules({ rules, streams, countRefused }: Plan, sorted: readonly string[]): string {
  const planLog = (index: number): string => digits(sorted.indexOf(streams[index]!), 3)
  const deciding = rules.filter(({ max }) => max < Number.MAX_SAFE_INTEGER).sort((a, b) => a.max - b.max)
  return [
    countRefused.length === 0 ? '0' : countRefused.length < streams.length ? '1' : '2',
    digits(deciding.length, 3),
    ...deciding.map(({ max, windowMs }) => digits(max, 3) + digits(windowMs, 5)),
    digits(rules.length, 3),
    ...rules.map(({ stream, max, maxWritten, windowMs, refuse }) => {
      const flags = (refuse ? 1 : 0) + (max < Number.MAX_SAFE_INTEGER ? 0 : 2)
      return planLog(stream) + digits(maxWritten, 3) + digits(windowMs, 5) + digits(flags, 1)
    }),
    digits(countRefused.length, 3),
    ...countRefused.map(planLog),
  ].join('')
}

/** Kind and weight; then a sign for an id or a batch that is kept as a run, for a reservation that may be refused, or for what may be long. */
export function writeQuestion({ kind, id, plan, terms }: Question, mayBeLong: boolean): string {
  if (kind === 'take' && id === undefined && terms.weight === 1) return mayBeLong ? takeLong : takeOne
  const isBare = kind === 'check' || (kind === 'take' && id === undefined && terms.weight <= unitsMax)
  const sign = kind === 'reserve' && plan.refuses ? '*' : '+'
  return letters[kind] + digits(terms.weight, 3) + (isBare ? (mayBeLong ? '~' : '') : sign)
}

/** `take` with a weight of 1, written out: a bundle that does not use it can leave it out. */
const takeOne = 't\u0000\u0000\u0001'
const takeLong = 't\u0000\u0000\u0001~'

/** Whatever is beyond the last instant that can be kept is never. @throws LimitsError `INVALID_ARGUMENT` */
export function boundedTerms(terms: Terms): Terms {
  if (terms.notBefore > instantMax) {
    throw new LimitsError(
      'INVALID_ARGUMENT',
      `notBefore is ${terms.notBefore}: Redis keeps 6 bytes, up to 10889`,
    )
  }
  if (terms.forbidden.every(({ to, resumeAt = to }) => resumeAt <= instantMax)) return terms
  const bound = (instant: number): number => (instant > instantMax ? Number.POSITIVE_INFINITY : instant)
  const forbidden = terms.forbidden.map(({ from, to, resumeAt = to }) => ({
    from,
    to: bound(to),
    resumeAt: bound(resumeAt),
  }))
  return { ...terms, forbidden }
}

/** notBefore and horizon in 7 digits each, a digit of flags, and the intervals in JSON; nothing where all is plain. */
export function writeTerms(terms: Terms): string {
  if (terms === plainTerms) return ''
  const { notBefore, horizonMs, priority, firm, forbidden } = terms
  const finite = (value: number): number => Math.max(-never, Math.min(never, value))
  const horizon = Math.min(Math.floor(horizonMs), horizonMax)
  const flags = (firm ? 1 : 0) + 2 * writtenPriorities.indexOf(priority)
  const intervals = forbidden.flatMap(({ from, to, resumeAt = to }) => [from, to, resumeAt].map(finite))
  const tail = intervals.length === 0 ? '' : JSON.stringify(intervals)
  return digits(notBefore, 7) + digits(horizon, 7) + digits(flags, 1) + tail
}

const writtenPriorities: readonly Priority[] = ['normal', 'low', 'high']

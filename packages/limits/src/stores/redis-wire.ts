/**
 * Serializes plans and questions for the script. They go as text whose numbers have digits of base 128: they are
 * bytes to the script and valid UTF-8 to every client, and a text costs a client less than a buffer.
 */
import { LimitsError } from '../errors.ts'
import type { Plan } from '../plan.ts'
import { type Priority, plainTerms, type Question, retainedMin, type Terms, unitsMax } from '../store.ts'

/** Instants have six bytes: up to the year 10,889. */
const instantMax = 2 ** 48 - 1
/** Stands for infinity in the script. */
export const never = 9e15

/** The names of the questions in the script. */
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
  /** The beginning in the store of a subject that knows this plan only. */
  readonly header: string
  readonly rules: string
  /** The most bytes that the instants of these rules take: a stream is cut when it has twice what it retains. */
  readonly bytesMax: number
  /** The commonest question, written once: `take` without an id and with a weight of 1. */
  readonly take: string
  /** The same where the subject may be long. */
  readonly takeLong: string
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
  const rules = writeRules(plan, streams)
  const take = letters.take + digits(1, 3)
  const made = {
    header,
    rules,
    bytesMax: 12 * retained,
    take: `${take} ${rules}`,
    takeLong: `${take}~${rules}`,
  }
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

/** True for a question without an id that counts in instants: it may go the quick way of the script. */
export function isPlain({ kind, id, terms }: Question): boolean {
  return kind === 'check' || (kind === 'take' && id === undefined && terms.weight <= unitsMax)
}

/**
 * Writes the kind, the weight and a sign (for an id or a batch that is kept as a run, for a reservation that may be
 * refused, for a subject that may be long), and the rules of the plan.
 */
export function writeQuestion(question: Question, written: WrittenPlan, mayBeLong: boolean): string {
  const { kind, id, plan, terms } = question
  if (kind === 'take' && id === undefined && terms.weight === 1)
    return mayBeLong ? written.takeLong : written.take
  const sign = isPlain(question) ? (mayBeLong ? '~' : ' ') : kind === 'reserve' && plan.refuses ? '*' : '+'
  return letters[kind] + digits(terms.weight, 3) + sign + written.rules
}

/** @throws LimitsError `INVALID_ARGUMENT` for an instant that cannot be kept */
export function checkInstant(what: string, at: number): void {
  if (at > instantMax)
    throw new LimitsError(
      'INVALID_ARGUMENT',
      `${what} is at ${at}: Redis keeps 6 bytes, up to the year 10889`,
    )
}

/** Makes instants that cannot be kept Infinity. @throws LimitsError `INVALID_ARGUMENT` */
export function boundedTerms(terms: Terms): Terms {
  checkInstant('notBefore', terms.notBefore)
  if (terms.forbidden.every(({ to, resumeAt = to }) => resumeAt <= instantMax)) return terms
  const bound = (instant: number): number => (instant > instantMax ? Number.POSITIVE_INFINITY : instant)
  const forbidden = terms.forbidden.map(({ from, to, resumeAt = to }) => ({
    from,
    to: bound(to),
    resumeAt: bound(resumeAt),
  }))
  return { ...terms, forbidden }
}

/** Writes notBefore, horizon, flags and the intervals as a list in JSON; nothing for plain terms. */
export function writeTerms(terms: Terms): string {
  if (terms === plainTerms) return ''
  const { notBefore, horizonMs, priority, firm, forbidden } = terms
  const flags = (firm ? 1 : 0) + 2 * writtenPriorities.indexOf(priority)
  const intervals = forbidden.flatMap(({ from, to, resumeAt = to }) => [from, to, resumeAt])
  const numbers = [notBefore, Math.floor(horizonMs), flags, ...intervals]
  return JSON.stringify(numbers.map((value) => Math.max(-never, Math.min(never, value))))
}

const writtenPriorities: readonly Priority[] = ['normal', 'low', 'high']

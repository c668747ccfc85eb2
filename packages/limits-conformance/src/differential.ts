/**
 * The same random operations on two limiters, and every answer compared. The clock steps forward, seldom back;
 * ids come again; limits change; everything that the port can be asked is asked.
 */
import assert from 'node:assert/strict'
import type { Limits } from '@sluice/limits'
import { type Limit, limit } from '@sluice/limits'
import type { Random } from './random.ts'

export interface World {
  now: number
}

/** Streams overlap, windows are short, so that every operation meets others. */
function ruleSets(): readonly (readonly Limit[])[] {
  const gap = limit('gap', '4/60ms', { stream: 'a', minGap: 7 })
  return [
    [limit('one', '2/40ms')],
    [limit('two', '2/40ms, 5/200ms, 9/500ms', { stream: 'a' }), limit('all', '6/90ms', { minGap: 3 })],
    [gap, limit('strict', '3/80ms', { stream: 'b', over: 'refuse' }), limit('all', '5/90ms')],
    [
      limit('strict', '2/30ms', { stream: 'b', over: 'refuse' }),
      limit('sticky', '3/50ms', { stream: 'c', countRefused: true }),
    ],
    [limit('sticky', '2/25ms, 4/120ms', { stream: 'a', countRefused: true, over: 'refuse' }), gap],
    [limit('never', '0/10ms', { stream: 'd' }), limit('all', '5/90ms')],
    [limit('batches', '40/60ms, 90/300ms', { stream: 'a' }), limit('sum', '60/90ms', { stream: 'e' })],
    [limit('wide', '20/300ms', { stream: 'a' }), limit('two', '1/1ms', { stream: 'b' })],
    [
      limit('passes', '1/50ms, 0/90ms', { stream: 'a', over: 'count' }),
      limit('two', '2/40ms', { stream: 'b' }),
    ],
    [],
  ]
}

const subjects = ['ada', 'bob']
const ids = ['i1', 'i2', 'i3', 'i4', 'i5', 'i6', 'i7', 'i8']

/** One random operation as a function that can be applied to several limiters. */
function randomOperation(
  random: Random,
  now: number,
  sets: readonly (readonly Limit[])[],
): { readonly text: string; apply(limits: Limits): Promise<unknown> } {
  const subject = random.pick(subjects)
  const rules = random.pick(sets)
  const id = random.pick(ids)
  const weight = random.once(5) ? random.between(1, 4) : random.once(6) ? random.between(5, 45) : 1
  const forbidden = random.once(3) ? randomIntervals(random, now) : []
  const notBefore = random.once(4) ? now + random.between(-20, 120) : 0
  const waiting = { weight, forbidden, notBefore }
  const horizonMs = random.once(4) ? random.between(0, 150) : Number.POSITIVE_INFINITY
  const priority = random.pick(['low', 'low', 'normal', 'high'] as const)
  const booking = { ...waiting, id, horizonMs, priority, firm: random.once(6) }
  const restored = {
    id,
    at: Math.max(0, now + random.between(-200, 60)),
    fired: random.once(2),
    streams: random.pick([['a'], ['a', 'b'], ['all', 'c', 'b']]),
    weight,
  }
  const blockMs = random.between(1, 120)
  const dice = random.below(100)
  const operation = (name: string, apply: (limits: Limits) => Promise<unknown>, options: unknown = {}) => ({
    text: `${now} ${name} ${subject} ${id} ${rules.map((rule) => rule.name).join('+')} ${JSON.stringify(options)}`,
    apply,
  })
  if (dice < 18) return operation('take', (on) => on.take(subject, rules, { weight }), { weight })
  if (dice < 26) return operation('take id', (on) => on.take(subject, rules, { weight, id }), { weight, id })
  if (dice < 30) return operation('check', (on) => on.check(subject, rules, { weight }), { weight })
  if (dice < 52) return operation('reserve', (on) => on.reserve(subject, rules, booking), booking)
  if (dice < 58) return operation('preview', (on) => on.preview(subject, rules, booking), booking)
  if (dice < 80) return operation('fire', (on) => on.fire(subject, id, rules, waiting), waiting)
  if (dice < 84) return operation('force', (on) => on.force(subject, id, rules, { weight }), { weight })
  if (dice < 93) return operation('cancel', (on) => on.cancel(subject, id))
  if (dice < 95) return operation('block', (on) => on.block(subject, blockMs), { blockMs })
  if (dice < 96) return operation('unblock', (on) => on.unblock(subject))
  if (dice < 97) return operation('restore', (on) => on.restore(subject, [restored]), restored)
  if (dice < 99) return operation('has', (on) => on.has(subject))
  return operation('forget', (on) => on.forget(subject))
}

/** The commonest call: one unit, no options. Stores have ways of their own for it. */
function plainTake(random: Random, now: number, rules: readonly Limit[]) {
  const subject = random.pick(subjects)
  const text = `${now} take ${subject} ${rules.map((rule) => rule.name).join('+')}`
  return { text, apply: (on: Limits): Promise<unknown> => on.take(subject, rules) }
}

function randomIntervals(random: Random, now: number): { from: number; to: number; resumeAt?: number }[] {
  return Array.from({ length: random.between(1, 3) }, () => {
    const from = now + random.between(-60, 100)
    const to = from + random.between(-5, 60)
    return random.once(2) ? { from, to } : { from, to, resumeAt: to + random.between(0, 30) }
  })
}

/** Mostly on, by what the windows are made of; now and then back. */
function step(random: Random, world: World): void {
  if (random.once(40)) world.now = Math.max(0, world.now - random.between(1, 60))
  else if (!random.once(3)) world.now += random.pick([1, 2, 3, 7, 10, 25, 40, 90])
}

/** An answer is read so many operations later: rows that are worked out late must still tell the old state. */
const readLater = 7

/** In a third of the runs one set of rules is counted in, and all other operations together are one in so many. */
const othersOnceIn = 6

/** Applies the same operations to all and compares each answer with the expected one, rows included. */
export async function compare(
  random: Random,
  world: World,
  operations: number,
  actual: readonly Limits[],
  expected: Limits,
  label: string,
): Promise<void> {
  const counted = random.once(3) ? random.pick(ruleSets()) : undefined
  const sets = counted === undefined ? ruleSets() : [counted]
  const history: string[] = []
  const answers: { readonly should: unknown; readonly are: readonly unknown[] }[] = []
  for (let count = 0; count < operations + readLater; count += 1) {
    if (count < operations) {
      step(random, world)
      const isPlain = counted !== undefined && !random.once(othersOnceIn)
      const operation = isPlain
        ? plainTake(random, world.now, counted)
        : randomOperation(random, world.now, sets)
      history.push(operation.text)
      const are = await Promise.all(actual.map((limits) => operation.apply(limits)))
      answers.push({ are, should: await operation.apply(expected) })
    }
    const read = count - readLater
    if (read < 0) continue
    const { are, should } = answers[read]!
    const told = history.slice(Math.max(0, read - 20), read + 1).join('\n')
    for (const is of are) assert.deepEqual(plain(is), plain(should), `${label}, after:\n${told}`)
  }
}

/** Decisions with their rows, comparable whatever class they have. */
function plain(value: unknown): unknown {
  const decision = value as { toJSON?: () => unknown } | undefined
  return typeof decision?.toJSON === 'function' ? decision.toJSON() : value
}

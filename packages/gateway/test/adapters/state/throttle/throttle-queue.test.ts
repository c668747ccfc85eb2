/**
 * Tests the throttle queue against an independent oracle: a list of arrivals, searched millisecond by millisecond.
 * Times are small so that each millisecond can be tried.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Window } from '@sluice/limits'
import { type ThrottleLimits, ThrottleQueue } from '../../../../src/adapters/state/throttle/throttle-queue.ts'
import { densest, seeded, testSeed } from '../../../harness.ts'

const runs = Number(process.env.SLUICE_RUNS ?? 100)
const margin = 2

interface One {
  readonly id: string
  readonly module: string
  readonly came: number
  readonly promised: number
  readonly critical: boolean
  /** The current place in the queue. */
  at: number
}

const window = (max: number, windowMs: number): Window => ({ max, windowMs, text: `${max}/${windowMs}ms` })

function randomRules(draw: () => number): ThrottleLimits {
  const some = (most: number): Window[] =>
    Array.from({ length: 1 + Math.floor(draw() * 2) }, () =>
      window(1 + Math.floor(draw() * most), 5 + Math.floor(draw() * 40)),
    )
  return { tenant: draw() < 0.15 ? [] : some(5), module: draw() < 0.15 ? [] : some(3), marginMs: margin }
}

/** True where an entry at `t` would put no window over its maximum. */
function admits(rules: ThrottleLimits, module: string, others: readonly One[], t: number): boolean {
  const full = (windows: readonly Window[], of: readonly One[]): boolean =>
    windows.some(({ max, windowMs }) => {
      const instants = of.map((one) => one.at)
      const lengthMs = windowMs + margin
      return instants.concat(t).some((from) => {
        const inside = (instant: number): boolean => instant >= from && instant < from + lengthMs
        return inside(t) && instants.filter(inside).length >= max
      })
    })
  return (
    !full(rules.tenant, others) &&
    !full(
      rules.module,
      others.filter((one) => one.module === module),
    )
  )
}

const firstFree = (rules: ThrottleLimits, module: string, others: readonly One[], from: number): number => {
  let t = from
  while (!admits(rules, module, others, t)) t += 1
  return t
}

interface Run {
  readonly rules: ThrottleLimits
  readonly draw: () => number
  queue: ThrottleQueue
  now: number
  serial: number
  everybody: One[]
  waiting: One[]
}

function arrive(run: Run): void {
  const module = 'abc'[Math.floor(run.draw() * 3)]!
  const id = String(run.serial++).padStart(6, '0')
  const from = Math.max(run.now, ...run.waiting.filter((one) => one.module === module).map((one) => one.at))
  const due = firstFree(run.rules, module, run.everybody, from)
  const peeked = run.queue.peek(module, run.now)
  const place = run.queue.join(module, id, run.now)
  assert.deepEqual(peeked, place, 'the dry run says what happens')
  assert.equal(place.at, due, 'a new entry gets the first free time beside earlier ones')
  const one = { id, module, came: run.now, promised: place.at, critical: false, at: place.at }
  run.everybody.push(one)
  if (place.waits) run.waiting.push(one)
  else assert.equal(place.at, run.now)
}

/** Removes an entry: entries behind it in its module move up, and the free place goes to an entry that gains by it. */
function depart(run: Run, gone: One): void {
  assert.equal(run.queue.leave(gone.module, gone.id, run.now), true)
  run.queue.closeUp(run.now)
  run.everybody = run.everybody.filter((one) => one !== gone)
  run.waiting = run.waiting.filter((one) => one !== gone)
  readPlaces(run)
  for (const one of run.waiting) {
    // The last entry of the module could not have an earlier place even if its own were free.
    const last = run.waiting.filter((other) => other.module === one.module).at(-1)!
    const others = run.everybody.filter((other) => other !== last)
    assert.ok(
      firstFree(run.rules, one.module, others, run.now) >= last.at,
      'nothing that is free is left unused',
    )
  }
}

/** Reads the places by asking for the turn of each entry. */
function readPlaces(run: Run): void {
  for (const one of run.waiting) {
    const turn = run.queue.turn(one.module, one.id, Number.NEGATIVE_INFINITY)
    assert.equal(turn?.passed, false)
    assert.ok(turn.at <= one.at, 'no entry is moved to a later place')
    one.at = turn.at
  }
}

function advanceTo(run: Run, until: number): void {
  for (;;) {
    const next = run.waiting.reduce<One | undefined>(
      (first, one) => (one.at <= until && (first === undefined || one.at < first.at) ? one : first),
      undefined,
    )
    if (next === undefined) break
    run.now = Math.max(run.now, next.at)
    assert.deepEqual(run.queue.turn(next.module, next.id, run.now), { passed: true, at: next.at })
    run.waiting = run.waiting.filter((one) => one !== next)
  }
  run.now = until
}

function restart(run: Run): void {
  run.queue = new ThrottleQueue(run.rules)
  const waiting = new Set(run.waiting)
  for (const one of run.everybody) {
    if (!waiting.has(one) && !one.critical) run.queue.count(one.module, one.at)
  }
  run.queue.restore(
    [...waiting].map(({ id, module, at }) => ({ id, module, at, dueAt: at })),
    run.everybody.filter((one) => one.critical),
    run.now,
  )
  readPlaces(run)
}

function check({ rules, everybody }: Run): void {
  const windowsHold = (windows: readonly Window[], of: readonly One[]): void => {
    for (const { max, windowMs } of windows) {
      const most = densest(
        of.map((one) => one.at),
        windowMs,
      )
      assert.ok(most <= max, `${most} in a window of ${max}/${windowMs}ms`)
    }
  }
  const usual = everybody.filter((one) => !one.critical)
  windowsHold(rules.tenant, usual)
  for (const module of 'abc') {
    const own = usual.filter((one) => one.module === module)
    windowsHold(rules.module, own)
    const turns = own.map((one) => one.at)
    assert.deepEqual(
      turns,
      turns.toSorted((a, b) => a - b),
      'first in, first out within a module',
    )
  }
  for (const one of usual) assert.ok(one.at <= one.promised, 'no entry is later than promised')
}

test(`every entry gets the first time that the windows admit, in ${runs} random queues (seed ${testSeed})`, () => {
  let turns = 0
  for (let number = 0; number < runs; number += 1) {
    const draw = seeded(testSeed * 10_000 + number)
    const rules = randomRules(draw)
    const run: Run = {
      rules,
      draw,
      queue: new ThrottleQueue(rules),
      now: 1_000,
      serial: 0,
      everybody: [],
      waiting: [],
    }
    const leaves = number % 2 === 0
    for (let step = 0; step < 60; step += 1) {
      const what = draw()
      if (what < 0.6) arrive(run)
      else if (what < 0.7 && leaves && run.waiting.length > 0) {
        depart(run, run.waiting[Math.floor(draw() * run.waiting.length)]!)
      } else if (what < 0.74) {
        run.queue.count('a', run.now)
        const id = String(run.serial++).padStart(6, '0')
        const { now } = run
        run.everybody.push({ id, module: 'a', came: now, promised: now, critical: true, at: now })
      } else if (what < 0.78) restart(run)
      else advanceTo(run, run.now + Math.floor(draw() * 15))
      assert.equal(run.queue.size, run.waiting.length)
    }
    advanceTo(run, run.now + 100_000)
    assert.equal(run.queue.size, 0)
    turns += run.everybody.length
    check(run)
  }
  console.log(`${turns} turns`)
})

test('nobody gets a place that has come already: it would count then, and pass beside those that count now', () => {
  const queue = new ThrottleQueue({ tenant: [window(1, 10)], module: [], marginMs: 0 })
  for (const id of ['0', '1', '2', '3']) queue.join('a', id, 1_000)
  const turn = queue.turn('a', '1', 1_015)!
  assert.deepEqual(turn, { passed: true, at: 1_010 })
  // Its commit is refused, because it was cancelled meanwhile.
  queue.putBack('a', '1', turn.at)
  assert.ok(queue.leave('a', '1', 1_015))
  queue.closeUp(1_015)
  assert.equal(queue.placeOf('a', '2'), 1_015, 'now, and not 1,010')
  assert.equal(queue.placeOf('a', '3'), 1_025, 'and those behind it close up')
})

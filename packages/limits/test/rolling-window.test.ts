/** Oracles 1 and 2 of the design: count every literal window; scan every instant. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Random, seededRandom, seedOfRun } from '@sluice/limits-conformance'
import { leave } from '../src/forbidden.ts'
import {
  admits,
  countIn,
  countUntil,
  earliest,
  type Free,
  freeAt,
  givesWayAt,
  type Log,
  merge,
  type Rule,
} from '../src/rolling-window.ts'

const never = Number.POSITIVE_INFINITY
const rounds = 20_000

/** Tells whether no window of this length that holds t would hold more than max, were `weight` instants put at t. */
function admitsLiterally(
  log: Log,
  { max, windowMs }: Pick<Rule, 'max' | 'windowMs'>,
  weight: number,
  t: number,
): boolean {
  for (let from = t - windowMs + 1; from <= t; from += 1) {
    const within = log.filter((instant) => instant >= from && instant < from + windowMs).length
    if (within + weight > max) return false
  }
  return true
}

/** The plain way to ask a rule. */
const on =
  (logs: readonly Log[], weight = 1): Free =>
  ({ stream, max, windowMs }, from) =>
    freeAt(logs[stream]!, max, windowMs, weight, from)

const randomLog = (random: Random, span: number): number[] =>
  Array.from({ length: random.below(14) }, () => random.below(span)).sort((a, b) => a - b)

const randomRule = (random: Random, streams: number): Rule => ({
  stream: random.below(streams),
  max: random.below(6),
  windowMs: random.between(1, 25),
})

describe('the earliest instant', () => {
  it('is the first that a scan of every instant finds', (t) => {
    const seed = seedOfRun()
    t.diagnostic(`SLUICE_SEED=${seed}`)
    const random = seededRandom(seed)
    for (let round = 0; round < rounds; round += 1) {
      const logs = [randomLog(random, 60), randomLog(random, 60)]
      const rules = Array.from({ length: random.between(0, 4) }, () => randomRule(random, 2))
      const forbidden = Array.from({ length: random.below(3) }, () => {
        const from = random.below(70)
        return { from, to: from + random.below(20) }
      })
      const weight = random.once(3) ? random.between(2, 3) : 1
      const from = random.below(70)
      const open = (t: number) =>
        leave(forbidden, t) === t &&
        rules.every((rule) => admitsLiterally(logs[rule.stream]!, rule, weight, t))
      let scanned = from
      // Nothing forbids beyond the last instant, the last interval and the widest window.
      while (scanned < 200 && !open(scanned)) scanned += 1
      const expected = scanned === 200 ? never : scanned
      assert.equal(
        earliest(rules, on(logs, weight), forbidden, from),
        expected,
        `seed ${seed}, round ${round}`,
      )
    }
  })

  it('never overfills a literal window, however entries come', (t) => {
    const seed = seedOfRun()
    t.diagnostic(`SLUICE_SEED=${seed}`)
    const random = seededRandom(seed)
    for (let round = 0; round < rounds / 100; round += 1) {
      const rules = Array.from({ length: random.between(1, 4) }, () => ({
        ...randomRule(random, 1),
        max: random.between(1, 5),
      }))
      let log: number[] = []
      for (let entry = 0; entry < 25; entry += 1) {
        const at = earliest(rules, on([log]), [], random.below(80))
        log = [...log, at].sort((a, b) => a - b)
        for (const { max, windowMs } of rules) {
          for (const from of log) {
            const within = log.filter((instant) => instant >= from && instant < from + windowMs).length
            assert.ok(
              within <= max,
              `seed ${seed}, round ${round}: ${within} of ${max} in ${windowMs} ms: ${log}`,
            )
          }
        }
      }
    }
  })

  it('passes by blocks that span a whole window: they forbid nothing', () => {
    // 0, 10, 20 under 2 per 10 ms: each pair spans the window, so 5 is refused by none of them.
    assert.equal(freeAt([0, 10, 20], 2, 10, 1, 5), 5)
    assert.equal(freeAt([0, 9, 20], 2, 10, 1, 5), 10)
  })

  it('resumes where the interval says, but only from inside it', () => {
    const forbidden = [{ from: 10, to: 20, resumeAt: 27 }]
    assert.equal(earliest([], on([]), forbidden, 10), 27)
    assert.equal(earliest([], on([]), forbidden, 20), 20)
    // The rules alone carry 5 to 21, across the end.
    assert.equal(earliest([{ stream: 0, max: 1, windowMs: 16 }], on([[5]]), forbidden, 5), 21)
    assert.equal(earliest([{ stream: 0, max: 1, windowMs: 10 }], on([[5]]), forbidden, 5), 27)
  })

  it('is never where the weight exceeds the count', () => {
    assert.equal(earliest([{ stream: 0, max: 0, windowMs: 5 }], on([[]]), [], 7), never)
    assert.equal(earliest([{ stream: 0, max: 2, windowMs: 5 }], on([[]], 3), [], 7), never)
  })
})

describe('the limit that decides', () => {
  it('refuses a millisecond earlier and admits at the instant', (t) => {
    const seed = seedOfRun()
    t.diagnostic(`SLUICE_SEED=${seed}`)
    const random = seededRandom(seed)
    for (let round = 0; round < rounds; round += 1) {
      const log = randomLog(random, 50)
      const rule = { max: random.between(1, 5), windowMs: random.between(1, 25) }
      const at = random.below(80)
      assert.equal(admits(log, rule.max, rule.windowMs, 1, at), admitsLiterally(log, rule, 1, at))
      const expected = admitsLiterally(log, rule, 1, at) && !admitsLiterally(log, rule, 1, at - 1)
      assert.equal(
        givesWayAt(log, rule.max, rule.windowMs, 1, at),
        expected,
        `seed ${seed}, round ${round}: ${log}`,
      )
    }
  })
})

describe('a log', () => {
  it('is counted as a filter would count it', (t) => {
    const seed = seedOfRun()
    t.diagnostic(`SLUICE_SEED=${seed}`)
    const random = seededRandom(seed)
    for (let round = 0; round < rounds; round += 1) {
      const log = randomLog(random, 20)
      const at = random.between(-2, 22)
      assert.equal(countUntil(log, at - 1), log.filter((instant) => instant < at).length)
      assert.equal(countUntil(log, at), log.filter((instant) => instant <= at).length)
      assert.equal(countIn(log, 5, at), log.filter((instant) => instant > at - 5 && instant <= at).length)
      const other = randomLog(random, 20)
      assert.deepEqual(
        merge(log, other),
        [...log, ...other].sort((a, b) => a - b),
      )
    }
  })
})

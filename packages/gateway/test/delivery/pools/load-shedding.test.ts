import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LearnedRate } from '../../../src/delivery/accounts/learned-rate.ts'
import { allowanceOf } from '../../../src/delivery/automatic-redrive.ts'
import { LoadShedding } from '../../../src/delivery/pools/load-shedding.ts'
import { leastRetries, RetryBudget } from '../../../src/delivery/retry-budget.ts'

const second = 1_000

/** Carries a constant rate for ten seconds, then a tenth of twenty accounts goes out. */
function reduced(
  perSecond: number,
  ratePerSecond: number | undefined,
): { shedding: LoadShedding; now: number } {
  const shedding = new LoadShedding({ ratePerSecond, demandMs: 5 * second, enabled: true }, 0)
  let now = 0
  for (let call = 0; call < perSecond * 20; call += 1) {
    now = (call * second) / perSecond
    shedding.asked(now, 1)
    shedding.carried(now, 1)
  }
  shedding.change(now, { outShare: 0.1 })
  return { shedding, now }
}

test('the admitted load is the remaining share of the rate or of the load carried before', () => {
  for (const [perSecond, rate, admitted] of [
    [100, 1_000, 90],
    [100, undefined, 90],
    [2_000, 1_000, 900],
  ] as const) {
    const { shedding, now } = reduced(perSecond, rate)
    assert.ok(Math.abs(shedding.admitted(now) - admitted) <= admitted * 0.01, `${shedding.admitted(now)}`)
  }
})

test('clearly higher demand than before raises the admitted load', () => {
  const { shedding, now } = reduced(100, 1_000)
  for (let ms = 0; ms < 5 * second; ms += 10) shedding.asked(now + ms, 4)
  const admitted = shedding.admitted(now + 5 * second)
  assert.ok(admitted > 340 && admitted < 380, `${admitted}`)
})

test('a pool that carried nothing before admits a call now and then, so that dead letters return while accounts are out', () => {
  const shedding = new LoadShedding({ ratePerSecond: 1_000, demandMs: 5 * second, enabled: true }, 0)
  const from = 20 * second
  shedding.change(from, { outShare: 0.5 })
  let calls = 0
  for (let now = from; now <= from + 60 * second; now = shedding.freeAt(now)!) {
    shedding.take()
    calls += 1
  }
  assert.equal(calls, 4, 'the first, and half of one each ten seconds')
})

test('no call is admitted when all accounts are out, and every call when all are back', () => {
  const { shedding, now } = reduced(100, 1_000)
  shedding.change(now, { outShare: 1 })
  assert.deepEqual([shedding.room(now), shedding.freeAt(now)], [0, undefined])
  shedding.change(now, { outShare: 0 })
  assert.equal(shedding.room(now), Number.POSITIVE_INFINITY)
})

test('a second incident soon after the first uses the load before both, a later one the load since', () => {
  const soon = reduced(100, 1_000)
  soon.shedding.change(soon.now + second, { outShare: 0 })
  // It carries nothing for three seconds: it is recovering.
  soon.shedding.change(soon.now + 4 * second, { outShare: 0.1 })
  const admitted = soon.shedding.admitted(soon.now + 4 * second)
  assert.ok(Math.abs(admitted - 90) <= 1, `${admitted}`)

  const late = reduced(100, 1_000)
  late.shedding.change(late.now, { outShare: 0 })
  let now = late.now
  for (; now < late.now + 15 * second; now += 50) {
    late.shedding.asked(now, 1)
    late.shedding.carried(now, 1)
  }
  late.shedding.change(now, { outShare: 0.1 })
  assert.ok(Math.abs(late.shedding.admitted(now) - 18) <= 1, `${late.shedding.admitted(now)}`)
})

test('an incident begins without a burst, and idle time saves none up', () => {
  const { shedding, now } = reduced(100, 1_000)
  assert.equal(shedding.room(now), 1)
  assert.equal(shedding.room(now + 10 * second), 9, 'a tenth of a second of what is admitted')
  shedding.change(now + 10 * second, { outShare: 0.9 })
  for (let taken = 0; taken < 9; taken += 1) shedding.take()
  assert.equal(shedding.room(now + 10_050), 0)
  shedding.change(now + 10_050, { outShare: 0.1 })
  assert.equal(shedding.room(now + 10_050), 0, 'what passed before was not admitted at the rate of now')
})

test('a call takes a token, an undone call returns it, and the next is free at a whole millisecond', () => {
  for (const perSecond of [7, 30, 100, 130, 900]) {
    const { shedding, now: from } = reduced(perSecond, 1_000)
    let now = Math.ceil(from)
    let taken = 0
    for (const end = now + 5 * second; now < end; now = shedding.freeAt(now)!) {
      assert.ok(Number.isInteger(now) && shedding.room(now) >= 1, `${perSecond}/s at ${now}`)
      shedding.take()
      shedding.giveBack()
      const room = shedding.room(now)
      shedding.take()
      assert.equal(shedding.room(now), room - 1)
      taken += 1
    }
    assert.ok(Math.abs(taken - 5 * 0.9 * perSecond) <= 2, `${taken} at ${perSecond}/s`)
  }
})

test('a pool that was idle for long admits its share of the demand, without a burst', () => {
  const shedding = new LoadShedding({ ratePerSecond: 1_000, demandMs: 5 * second, enabled: true }, 0)
  const now = 20 * second
  shedding.change(now, { outShare: 0.1 })
  shedding.asked(now, 10)
  assert.equal(shedding.admitted(now), 2, 'ten in five seconds, of which the slice under way is left out')
})

test('every call is admitted when load shedding is off', () => {
  const shedding = new LoadShedding({ ratePerSecond: 10, demandMs: 5 * second, enabled: false }, 0)
  shedding.change(0, { outShare: 0.5 })
  assert.deepEqual([shedding.room(0), shedding.freeAt(0)], [Number.POSITIVE_INFINITY, 0])
})

test('a new process without a measured load admits its share of the rate', () => {
  const shedding = new LoadShedding({ ratePerSecond: 500, demandMs: 5 * second, enabled: true }, 0)
  shedding.change(100, { outShare: 0.2 })
  assert.equal(shedding.admitted(100), 400)
})

test('the retry budget is a fifth of first calls plus ten, over ten seconds', () => {
  const budget = new RetryBudget({ share: 0.2 })
  for (let call = 0; call < 100; call += 1) budget.sent(second)
  let taken = 0
  while (budget.take(second)) taken += 1
  assert.equal(taken, leastRetries + 20)
  assert.equal(budget.take(12 * second), true)
})

test('the processes of a fleet share the ten retries that are always allowed', () => {
  let memberCount = 1
  const budget = new RetryBudget({ share: 0.2, memberCount: () => memberCount })
  assert.equal(budget.left(second), leastRetries)
  memberCount = 4
  assert.equal(budget.left(second), leastRetries / 4)
})

test('a 429 multiplies the learned rate down, time adds it up again after the block', () => {
  const learned = new LearnedRate({ fall: 0.8, risePerSecond: 0.01 })
  learned.fall(0, 10 * second)
  assert.equal(learned.share(10 * second), 0.8)
  assert.ok(Math.abs(learned.share(15 * second) - 0.85) < 1e-9)
  learned.fall(15 * second, 15 * second)
  assert.ok(Math.abs(learned.share(15 * second) - 0.68) < 1e-9)
  assert.equal(learned.share(60 * second), 1)
})

test('the redrive allowance begins at a tenth and doubles each second up to the full rate', () => {
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((s) => allowanceOf(s * second, 1_000)),
    [10, 20, 40, 80, 100],
  )
  assert.equal(allowanceOf(0, 1), 1)
  assert.equal(allowanceOf(second, 50), 2, 'ten a second at least to begin with')
})

/** The arithmetic of account slots against a log of every use: no rolling window over, and what a busy account gets. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Random, seededRandom, seedOfRun } from '@sluice/limits-conformance'
import { ringOf, type SlotQuestion, SlotShard } from '../src/slots.ts'

const start = Date.UTC(2026, 10, 21, 12)
const seed = seedOfRun()

/** The fullest half-open interval of this length over sorted uses. */
function fullest(uses: readonly number[], windowMs: number): number {
  let most = 0
  for (let first = 0, last = 0; last < uses.length; last += 1) {
    while (uses[last]! - uses[first]! >= windowMs) first += 1
    most = Math.max(most, last - first + 1)
  }
  return most
}

interface Use {
  readonly account: string
  readonly at: number
}

/**
 * Asks as it comes, and uses each token somewhere in what is left of its slot: at once, at the end, anywhere. The
 * shard's clock steps back now and then; uses are told in real time, which does not.
 */
function play(random: Random, slotMs: number, windows: SlotQuestion['windows'], steps: number): Use[] {
  const shard = new SlotShard(slotMs)
  const uses: Use[] = []
  let now = start
  let behind = 0
  const habit = random.below(4)
  for (let count = 0; count < steps; count += 1) {
    const longest = Math.max(...windows.map(({ windowMs }) => windowMs))
    now += random.once(30) ? random.between(0, 2 * longest) : random.between(0, 2 * slotMs * 10) / 10
    const accounts = random.once(4) ? ['a', 'b'] : [random.pick(['a', 'b'])]
    const questions = accounts.map((account) => ({ account, windows, want: random.between(0, 12) }))
    if (random.once(40)) behind += random.pick([1, slotMs, longest, 10 * longest])
    const grants = shard.ask(questions, now - behind)
    for (const [index, { granted }] of grants.entries()) {
      for (let token = 0; token < granted; token += 1) {
        const late = habit === 0 ? 0 : habit === 1 ? 0.999 : random.below(1_000) / 1_000
        uses.push({ account: accounts[index]!, at: now + late * shard.restMs })
      }
    }
  }
  return uses
}

describe('account slots', () => {
  it('let no rolling window of any account hold more than its maximum, whenever tokens are used', (t) => {
    t.diagnostic(`SLUICE_SEED=${seed}`)
    const random = seededRandom(seed)
    for (let round = 0; round < 300; round += 1) {
      const slotMs = random.pick([1, 5, 20, 50])
      const windows = Array.from({ length: random.between(1, 3) }, () => ({
        max: random.between(0, 30),
        windowMs: random.pick([3, 17, 100, 1_000, 1_001, 7_000, 60_000]),
      }))
      const uses = play(random, slotMs, windows, 150)
      for (const account of ['a', 'b']) {
        const own = uses.filter((use) => use.account === account).map(({ at }) => at)
        own.sort((a, b) => a - b)
        for (const { max, windowMs } of windows) {
          const most = fullest(own, windowMs)
          assert.ok(most <= max, `round ${round}: ${most} of ${max} in ${windowMs} ms, slots of ${slotMs} ms`)
        }
      }
    }
  })

  it('give a busy account W / (W + d) of its rate: 909, 952, 980, 990 of 1,000 a second', () => {
    const shares = [100, 50, 20, 10].map((slotMs) => {
      const shard = new SlotShard(slotMs)
      let granted = 0
      for (let now = 0; now < 60_000; now += slotMs / 2) {
        const windows = [{ max: 1_000, windowMs: 1_000 }]
        granted += shard.ask([{ account: 'a', windows, want: 1_000 }], start + now)[0]!.granted
      }
      return Math.floor(granted / 60)
    })
    for (const [index, expected] of [909, 952, 980, 990].entries())
      assert.ok(Math.abs(shares[index]! - expected) <= 16, `${shares}`)
    assert.ok(shares[2]! >= 950, 'at 20 ms at least 95 % are used')
  })

  it('count an hour in no more slots than a second needs, and give it 99 % of its maximum', () => {
    assert.deepEqual(ringOf(1_000, 20), { width: 1, run: 51 })
    const { width, run } = ringOf(3_600_000, 20)
    assert.ok(run <= 129, `${run} slots`)
    assert.ok(3_600_000 / (run * width * 20) > 0.99)
    const shard = new SlotShard(1_000)
    const windows = [
      { max: 100, windowMs: 1_000 },
      { max: 50_000, windowMs: 3_600_000 },
    ]
    let granted = 0
    for (let second = 0; second < 4 * 3_600; second += 1)
      granted += shard.ask([{ account: 'a', windows, want: 100 }], start + 1_000 * second)[0]!.granted
    assert.ok(granted >= 4 * 50_000 * 0.98 && granted <= 5 * 50_000, `${granted} in four hours`)
  })

  it('hold granted tokens for their whole time when the clock steps back, and stand still no longer than that', () => {
    const shard = new SlotShard(20)
    const ask = (now: number) =>
      shard.ask([{ account: 'a', windows: [{ max: 10, windowMs: 1_000 }], want: 10 }], now)[0]!.granted
    assert.equal(ask(start), 10)
    assert.equal(ask(start - 3_600_000), 0)
    assert.equal(
      ask(start - 3_600_000 + 1_000),
      0,
      'the slot in which they may have been used is not out yet',
    )
    assert.equal(ask(start - 3_600_000 + 1_020), 10)
  })

  it('apply a changed maximum at once, to tokens granted before', () => {
    const shard = new SlotShard(20)
    const ask = (max: number, now: number) =>
      shard.ask([{ account: 'a', windows: [{ max, windowMs: 1_000 }], want: 100 }], now)[0]!.granted
    assert.equal(ask(10, start), 10)
    assert.equal(ask(15, start + 1), 5)
    assert.equal(ask(12, start + 500), 0)
    assert.equal(ask(12, start + 1_020), 12)
  })
})

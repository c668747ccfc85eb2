/** The rate at which records arrived in their topics, by their timestamps. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { TopicArrivals } from '../../../src/delivery/pools/topic-arrivals.ts'

const now = Date.UTC(2026, 10, 23)
const day = 86_400_000

function rateOf(timestamps: readonly number[]): number {
  const arrivals = new TopicArrivals(60_000)
  for (const timestamp of timestamps) arrivals.taken(now, timestamp)
  arrivals.heldBack(now)
  return arrivals.perSecond(now)
}

describe('arrivals in topics', () => {
  const burst = Array.from({ length: 200 }, (_, n) => now - 30_000 + 10 * n)

  it('have the rate at which they were written, however fast they are taken', () => {
    assert.ok(Math.abs(rateOf(burst) - 100) < 1, `${rateOf(burst)} a second`)
  })

  it('keep that rate beside records without a timestamp, in seconds, or of a wrong clock', () => {
    for (const strange of [-1, 0, Math.floor(now / 1_000), now + day, now - 400 * day]) {
      const rate = rateOf([...burst, strange])
      assert.ok(Math.abs(rate - 100) < 2, `${rate} a second beside ${strange}`)
    }
  })

  it('are a burst of a second where no record has a timestamp', () => {
    assert.equal(rateOf(burst.map(() => -1)), 200)
  })
})

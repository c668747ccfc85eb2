import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, densest, second } from '../harness.ts'

const rate = 20

/** Fills a pool, with or without critical notifications; gives the wait of each critical one and the number sent. */
async function fullPool(critical: string, withCritical: boolean): Promise<{ waits: number[]; left: number }> {
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: {
      pools: {
        email: { provider: 'sandbox', critical, accounts: [{ id: 'a', rate: `${rate}/s` }] },
        websocket: { provider: 'sandbox' },
      },
    },
  })
  await harness.postMany(Array.from({ length: 400 }, () => ({ priority: 'low' as const })))
  const posted = new Map<string, number>()
  for (let index = 0; index < 12; index += 1) {
    // At odd instants, when the rest of the second is used up.
    await harness.runFor(730)
    if (withCritical) posted.set((await harness.post({ priority: 'critical' })).id, harness.clock.now())
  }
  await harness.runFor(second)
  const sent = harness.sent()
  const waits = sent.flatMap(({ id, at }) => (posted.has(id) ? [at - posted.get(id)!] : []))
  assert.ok(
    densest(
      sent.map(({ at }) => at),
      second,
    ) <= rate,
  )
  await harness.stop()
  return { waits, left: sent.length }
}

test('places are reserved while critical notifications arrive, and all are lent without them', async (t) => {
  const kept = await fullPool('10%', true)
  const none = await fullPool('0%', true)
  const lent = await fullPool('10%', false)
  t.diagnostic(`waited with 10 % kept: ${kept.waits.join(' ')} ms; with none: ${none.waits.join(' ')} ms`)
  assert.equal(kept.waits.length, 12)
  // Before the first one no place is reserved.
  assert.ok(kept.waits.slice(2).every((wait) => wait <= 20))
  assert.ok(none.waits.some((wait) => wait > 100))
  assert.ok(lent.left >= 9 * rate, `${lent.left}`)
})

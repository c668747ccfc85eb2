/**
 * Load shedding keeps an incident from spreading: providers whose true limit is 0.95 of the configured one, at nine
 * tenths of the load. One of ten accounts is blocked for a reason of its own; the pool decides what follows.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSandbox } from '../../src/providers/sandbox/adapter.ts'
import { createHarness, minute, second } from '../harness.ts'

const start = Date.UTC(2026, 10, 21, 12)
const accounts = 10
/** Calls per second of each account. */
const rate = 20

/** Counts the accounts answered 429, and the messages that arrived in the minute after the incident. */
async function incident(shedding: boolean): Promise<{ refused: number; arrived: number; lost: number }> {
  const blocked = new Set(['a0'])
  let side: ReturnType<typeof createSandbox> | undefined
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    start,
    config: {
      tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000 } },
      pools: {
        email: {
          provider: 'sandbox',
          shedding,
          accounts: Array.from({ length: accounts }, (_, index) => ({ id: `a${index}`, rate: `${rate}/s` })),
        },
        websocket: { provider: 'sandbox' },
      },
    },
    providers(clock) {
      side = createSandbox({
        clock,
        keep: 100_000,
        behaviour: { rates: [{ max: rate * 10 * 0.95, windowMs: 10 * second }], retryAfter: '60' },
        script: ({ account, now }) =>
          blocked.has(account) && now >= start + 12 * second && now < start + 72 * second
            ? 'rate_limit'
            : undefined,
      })
      return [side]
    },
  })
  const perTick = (accounts * rate * 0.9) / 10
  for (let passed = 0; passed < 72 * second; passed += 100) {
    await harness.postMany(Array.from({ length: perTick }, () => ({})))
    await harness.runFor(100)
  }
  const refused = Array.from({ length: accounts }, (_, index) => side!.counters(`a${index}`)).filter(
    ({ fates }) => fates.rate_limit > 0,
  ).length
  const arrived = side!.received().filter(({ at }) => at >= start + 12 * second).length
  await harness.runFor(20 * minute)
  const { delivered } = harness.counts()
  await harness.stop()
  return { refused, arrived, lost: 720 * perTick - delivered }
}

test('load shedding keeps one blocked account from taking the others down', async (t) => {
  const without = await incident(false)
  const withIt = await incident(true)
  t.diagnostic(`without: ${without.refused} of ${accounts} refused, ${without.arrived} arrived in the minute`)
  t.diagnostic(`with: ${withIt.refused} of ${accounts} refused, ${withIt.arrived} arrived in the minute`)
  assert.equal(withIt.refused, 1)
  assert.equal(without.refused, accounts)
  assert.ok(withIt.arrived > without.arrived * 2)
  assert.deepEqual([withIt.lost, without.lost], [0, 0], 'nothing is lost either way')
})

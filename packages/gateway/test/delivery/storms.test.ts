/**
 * Random failures of random accounts, in virtual time: no account is ever called more often than its rate allows
 * in any second, or while it is blocked, and every accepted notification is delivered or waits with its cause.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { priorities } from '../../src/model.ts'
import { createSandbox, type Sandbox } from '../../src/providers/sandbox/adapter.ts'
import { createHarness, densest, minute, second, seeded, testSeed } from '../harness.ts'

const start = Date.UTC(2026, 10, 21, 12)
const rate = 10
const retryAfters = ['1', '0', '3', '', 'soon', '-5', 'Sat, 21 Nov 2020 12:00:00 GMT']

for (const seed of [testSeed, testSeed + 1, testSeed + 2]) {
  test(`a storm loses nothing and breaks no limit (SLUICE_SEED=${seed})`, async () => {
    const chance = seeded(seed)
    const accounts = 1 + Math.floor(chance() * 6)
    let side: Sandbox | undefined
    const harness = await createHarness({
      seed,
      start,
      policy: { version: 1, limits: [] },
      config: {
        tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000 } },
        pools: {
          email: {
            provider: 'sandbox',
            timeout: '2s',
            shedAfter: `${1 + Math.floor(chance() * 5)}s`,
            breaker: { of: 5, coolDown: '2s' },
            accounts: Array.from({ length: accounts }, (_, index) => ({
              id: `a${index}`,
              rate: `${rate}/s`,
            })),
          },
          websocket: { provider: 'sandbox' },
        },
      },
      providers(clock) {
        side = createSandbox({ clock, seed, keep: 100_000 })
        return [side]
      },
    })
    let posted = 0
    for (let tick = 0; tick < 60; tick += 1) {
      if (chance() < 0.3) {
        const account = `a${Math.floor(chance() * accounts)}`
        const odds = {
          fail: chance() * 0.3,
          reset: chance() * 0.2,
          reset_after_accept: chance() * 0.1,
          hang: chance() * 0.2,
        }
        const max = Math.floor(chance() * (rate + 2))
        const retryAfter = retryAfters[Math.floor(chance() * retryAfters.length)]!
        side!.behave({ odds, rates: [{ max, windowMs: second }], retryAfter }, account)
      }
      const count = Math.floor(chance() * accounts * rate * 1.2)
      posted += count
      const drafts = Array.from({ length: count }, () => ({
        priority: priorities[Math.floor(chance() * 4)]!,
      }))
      if (count > 0) await harness.postMany(drafts)
      await harness.runFor(second)
    }
    for (let index = 0; index < accounts; index += 1) side!.behave({}, `a${index}`)
    await harness.runFor(60 * minute)
    const { delivered, dead, ...others } = harness.counts()
    assert.equal(delivered + dead, posted, JSON.stringify(others))
    const { items } = await harness.done(harness.gateway.store.deadLetters({ limit: 10_000 }))
    const causes = new Set(items.map(({ timeline }) => timeline.at(-1)?.reason))
    causes.delete('outcome_unknown')
    causes.delete('attempts_exhausted')
    assert.deepEqual([...causes], [], 'whatever waited for capacity has come back')
    for (let index = 0; index < accounts; index += 1) {
      const account = `a${index}`
      const calls = side!.calls({ account }).map(({ at }) => at)
      assert.ok(densest(calls, second) <= rate, `${account} in a second: ${densest(calls, second)}`)
    }
    await harness.check()
    await harness.stop()
  })
}

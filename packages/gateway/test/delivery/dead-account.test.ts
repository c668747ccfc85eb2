/** An account that fails every call is out after ten of them and those in flight, whatever its traffic. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SendResult } from '../../src/ports.ts'
import { createHarness, hour, minute, second } from '../harness.ts'
import { broken, createScripted, delivered } from './scripted.ts'

const emailPool = (terms: object) => ({
  pools: { email: { provider: 'sandbox', ...terms }, websocket: { provider: 'sandbox' } },
})
const accounts = (concurrency: number, ...ids: string[]) =>
  ids.map((id) => ({ id, rate: '50/s', concurrency }))
const noLimits = { version: 1, limits: [] }

test('an account with one call in ten seconds is out after ten failures, and reports outUntil and outBecause', async (t) => {
  const scripted = createScripted((): SendResult => broken)
  const { gateway, clock, runFor, post, stop } = await createHarness({
    policy: noLimits,
    config: emailPool({ retry: { attempts: 1 }, accounts: [{ id: 'a', rate: '50/s' }] }),
    parts: { providers: [scripted.provider] },
  })
  t.after(stop)
  const report = () => gateway.pools().find(({ channel }) => channel === 'email')!.accounts[0]!
  const { outUntil, outBecause } = report()
  assert.deepEqual({ outUntil, outBecause }, { outUntil: null, outBecause: null })
  for (let message = 0; message < 10; message += 1) {
    assert.equal(report().status, 'healthy')
    await runFor(10 * second)
    await post()
  }
  await runFor(0)
  const openedAt = clock.now()
  assert.deepEqual(
    { ...report(), concurrency: 0 },
    {
      id: 'a',
      rate: '50/s',
      used: 1,
      status: 'open',
      blockedUntil: null,
      outUntil: openedAt + 5 * second,
      outBecause: 'breaker',
      learnedRate: null,
      concurrency: 0,
    },
  )
  assert.equal(scripted.calls.length, 10)
})

test('an account that dies under full traffic gets ten calls and those in flight, however many succeeded before', async (t) => {
  let dead = false
  const scripted = createScripted((_, { account }) => (dead && account === 'a' ? broken : delivered))
  const concurrency = 4
  const { runFor, postMany, stop } = await createHarness({
    policy: noLimits,
    config: emailPool({ accounts: accounts(concurrency, 'a', 'b') }),
    parts: { providers: [scripted.provider] },
  })
  t.after(stop)
  const traffic = async (seconds: number) => {
    for (let tenth = 0; tenth < seconds * 10; tenth += 1) {
      await postMany(Array.from({ length: 8 }, () => ({})))
      await runFor(second / 10)
    }
  }
  await traffic(20)
  dead = true
  const before = scripted.calls.length
  await traffic(4)
  const failed = scripted.calls.slice(before).filter(({ account }) => account === 'a').length
  assert.ok(failed >= 10 && failed <= 10 + concurrency, `${failed} calls of the dead account`)
})

test('a retry takes no turn of the round robin: every other message tries the failing one of two accounts first', async (t) => {
  const scripted = createScripted((_, { account }) => (account === 'a' ? broken : delivered))
  const { runFor, post, stop } = await createHarness({
    policy: noLimits,
    config: emailPool({ accounts: accounts(4, 'a', 'b') }),
    parts: { providers: [scripted.provider] },
  })
  t.after(stop)
  const first: string[] = []
  for (let message = 0; message < 12; message += 1) {
    const before = scripted.calls.length
    await post()
    await runFor(minute)
    first.push(scripted.calls[before]!.account)
  }
  assert.equal(first.filter((account) => account === 'a').length, 6, first.join(' '))
})

test('retries go to the other account also when several are sent at once', async (t) => {
  const scripted = createScripted((_, { account }) => (account === 'a' ? broken : delivered))
  const { runFor, postMany, stop } = await createHarness({
    policy: noLimits,
    config: emailPool({
      breaker: { inARow: 1000, of: 1000 },
      retry: { budget: '100%' },
      accounts: accounts(20, 'a', 'b'),
    }),
    parts: { providers: [scripted.provider] },
  })
  t.after(stop)
  for (let round = 0; round < 10; round += 1) {
    await postMany(Array.from({ length: 8 }, () => ({})))
    await runFor(hour)
  }
  const byMessage = Map.groupBy(scripted.calls, ({ message }) => message.id)
  for (const calls of byMessage.values()) {
    const accounts = calls.map(({ account }) => account).join(' ')
    assert.ok(['b', 'a b'].includes(accounts), `a message met ${accounts}`)
  }
})

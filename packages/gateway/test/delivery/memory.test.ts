/** State that must survive a restart: blocks, breakers, and calls that may have arrived. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createHarness, day, hour, minute, second } from '../harness.ts'
import { broken, createScripted, delivered, throttled } from './scripted.ts'

const start = Date.UTC(2026, 10, 21, 12)
const noLimits = { version: 1, limits: [] }
const unknown = { outcome: 'unknown', detail: 'reset before the answer' } as const

test('a block and an open breaker hold through a restart', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-memory-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'sluice.db')
  const accounts = [
    { id: 'throttled', rate: 'unlimited' },
    { id: 'broken', rate: 'unlimited' },
  ]
  const pool = { provider: 'sandbox', accounts, retry: { budget: '100%' } }
  const options = { policy: noLimits, config: { pools: { email: pool, websocket: { provider: 'sandbox' } } } }
  const first = createScripted((_, { account }) => (account === 'broken' ? broken : throttled('600')))
  const before = await createHarness({ ...options, file, start, parts: { providers: [first.provider] } })
  for (let index = 0; index < 12; index += 1) await before.post()
  await before.runFor(2 * second)
  const known = before.gateway.pools()[0]!.accounts
  assert.deepEqual(
    known.map(({ status }) => status),
    ['blocked', 'open'],
  )
  await before.stop()

  const second_ = createScripted(() => delivered)
  const again = await createHarness({
    ...options,
    file,
    start: start + 3 * second,
    parts: { providers: [second_.provider] },
  })
  await again.post()
  await again.runFor(second)
  const after = again.gateway.pools()[0]!.accounts
  assert.deepEqual(
    after.map(({ status, blockedUntil }) => [status, blockedUntil]),
    [
      ['blocked', known[0]!.blockedUntil],
      ['open', null],
    ],
  )
  assert.equal(second_.calls.length, 0)
  await again.runFor(20 * second)
  assert.deepEqual(
    new Set(second_.calls.map(({ account }) => account)),
    new Set(['broken']),
    'probed, and back',
  )
  await again.runUntil(known[0]!.blockedUntil! + minute)
  await again.post()
  await again.post()
  await again.runFor(second)
  assert.ok(second_.calls.some(({ account }) => account === 'throttled'))
  assert.equal(again.counts().delivered, 15)
  const kept = await again.gateway.store.accounts()
  assert.ok(
    !kept.some(({ account }) => account === 'broken'),
    'nothing is to be known of one that works again',
  )
  await again.stop()
})

test('a call of unknown outcome still counts after a redrive', async () => {
  const { provider, calls } = createScripted((number) => (number === 1 ? unknown : delivered))
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['2/day'], over: 'delay' }] },
    parts: { providers: [provider] },
  })
  const { id } = await harness.post()
  await harness.runFor(second)
  assert.equal((await harness.notification(id)).timeline.at(-1)?.reason, 'outcome_unknown')
  assert.equal((await harness.done(harness.gateway.gate.redrive({ cause: 'outcome_unknown' }))).redriven, 1)
  await harness.runFor(second)
  assert.equal(calls.length, 2)
  // Two may have reached the recipient: a third has to wait for the day to pass.
  await harness.post()
  await harness.runFor(hour)
  assert.equal(calls.length, 2)
  await harness.runFor(day)
  assert.equal(calls.length, 3)
  await harness.stop()
})

test('an account removed and added again keeps its usage; one of another channel starts empty', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-memory-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'sluice.db')
  let at = start
  /** Sends ten messages per channel; gives the calls of each account in the first minutes of an hour. */
  async function run(pools: Readonly<Record<string, readonly string[]>>): Promise<Record<string, number>> {
    const { provider, calls } = createScripted(() => delivered)
    const config = Object.fromEntries(
      Object.entries(pools).map(([channel, ids]) => [
        channel,
        { provider: 'sandbox', accounts: ids.map((id) => ({ id, rate: '8/h' })) },
      ]),
    )
    const harness = await createHarness({
      policy: noLimits,
      config: { pools: { ...config, websocket: { provider: 'sandbox' } } },
      file,
      start: at,
      parts: { providers: [provider] },
    })
    for (const channel of Object.keys(pools))
      for (let index = 0; index < 10; index += 1) await harness.post({ channel: channel as 'email' })
    await harness.runFor(minute)
    await harness.stop()
    at = harness.clock.now() + minute
    const counts: Record<string, number> = {}
    for (const { account, message } of calls) {
      const name = `${message.channel} ${account}`
      counts[name] = (counts[name] ?? 0) + 1
    }
    return counts
  }
  assert.deepEqual(await run({ email: ['a'] }), { 'email a': 8 })
  assert.deepEqual(await run({ email: ['b'] }), { 'email b': 8 })
  assert.deepEqual(
    await run({ email: ['a'], sms: ['a'] }),
    { 'sms a': 8 },
    'the hour of email a has not passed',
  )
  at += hour
  assert.deepEqual(await run({ email: ['a'] }), { 'email a': 8 })
})

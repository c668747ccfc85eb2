import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DeadCause } from '../../src/model.ts'
import { createHarness, hour, minute, second } from '../harness.ts'
import { broken, createScripted, delivered, refused, throttled } from './scripted.ts'

const content = { subject: 'same', text: 'same' }

test('a notification rejected by the provider has failed, and its duplicate is accepted at once', async () => {
  const { provider } = createScripted((number) => (number === 1 ? refused : delivered))
  const harness = await createHarness({
    policy: { version: 1, limits: [], deduplication: { window: '1h' } },
    parts: { providers: [provider] },
  })
  const first = await harness.post({ content })
  await harness.runFor(second)
  assert.equal((await harness.notification(first.id)).status, 'failed')
  const again = await harness.post({ content })
  assert.equal(again.status, 'queued')
  await harness.runFor(second)
  assert.equal((await harness.notification(again.id)).status, 'delivered')
  assert.equal((await harness.post({ content })).decision.reason, 'duplicate')
  await harness.check()
  await harness.stop()
})

test('a notification waiting for a blocked account expires in time and releases its slot', async () => {
  const { provider, calls } = createScripted((number) => (number === 1 ? throttled('3600') : delivered))
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['2/day'], over: 'drop' }] },
    parts: { providers: [provider] },
  })
  const blocking = await harness.post({ recipient: 'eve' })
  await harness.runFor(second)
  const expiresAt = harness.start + 10 * minute
  const held = [await harness.post({ expiresAt }), await harness.post({ expiresAt })]
  await harness.runUntil(expiresAt - 1)
  for (const { id } of held) {
    const last = (await harness.notification(id)).timeline.at(-1)
    assert.deepEqual([last?.status, last?.reason], ['dead', 'pool_blocked'])
  }
  await harness.runUntil(expiresAt)
  for (const { id } of held) {
    const ended = await harness.notification(id)
    assert.equal(ended.status, 'expired')
    assert.equal(ended.timeline.at(-1)?.at, expiresAt)
  }
  assert.equal((await harness.post()).status, 'queued')
  assert.equal((await harness.post()).status, 'queued')
  assert.equal((await harness.post()).decision.reason, 'over_limit')
  await harness.runUntil(harness.start + hour - 1)
  assert.equal(calls.length, 1, 'a blocked account gets no call')
  await harness.runUntil(harness.start + hour)
  assert.equal(calls.length, 4, 'it is blocked for exactly as long as it said')
  assert.equal((await harness.notification(blocking.id)).status, 'delivered')
  await harness.check()
  await harness.stop()
})

test('a retry after expiresAt expires at expiresAt instead', async () => {
  const { provider } = createScripted(() => broken)
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    parts: { providers: [provider] },
  })
  const expiresAt = harness.start + 20 * second
  const { id } = await harness.post({ expiresAt })
  await harness.runUntil(expiresAt)
  const ended = await harness.notification(id)
  assert.equal(ended.status, 'expired')
  assert.equal(ended.timeline.at(-1)?.at, expiresAt)
  await harness.check()
  await harness.stop()
})

test('a notification is a dead letter with its cause after the last attempt, and a redrive sends it', async () => {
  let up = false
  const { provider, calls } = createScripted(() => (up ? delivered : broken))
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'drop' }] },
    parts: { providers: [provider] },
  })
  const { id } = await harness.post()
  await harness.runFor(hour)
  const dead = await harness.notification(id)
  assert.equal(dead.status, 'dead')
  assert.equal(dead.timeline.at(-1)?.reason, 'attempts_exhausted')
  assert.equal(calls.length, 6)
  assert.deepEqual(
    calls.map((call) => call.message.attempt),
    [1, 2, 3, 4, 5, 6],
  )
  up = true
  const redriven = async (cause: DeadCause) =>
    (await harness.done(harness.gateway.gate.redrive({ cause }))).redriven
  assert.equal(await redriven('outcome_unknown'), 0)
  assert.equal(await redriven('attempts_exhausted'), 1)
  await harness.runFor(second)
  assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.check()
  await harness.stop()
})

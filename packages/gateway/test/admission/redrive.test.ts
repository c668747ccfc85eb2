import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RedriveRequest } from '../../src/doors.ts'
import { broken, createScripted, delivered } from '../delivery/scripted.ts'
import { createHarness, hour, second } from '../harness.ts'

const unknown = { outcome: 'unknown', detail: 'reset after the request was written' } as const

/** A letter that was refused six times, and one that may have arrived. */
async function withDeadLetters() {
  let isUp = false
  const { provider, calls } = createScripted((number) => {
    if (number === 1) return unknown
    return isUp ? delivered : broken
  })
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    parts: { providers: [provider] },
  })
  const perhaps = await harness.post({ content: { subject: 'a', text: 'a' } })
  await harness.runFor(second)
  const exhausted = await harness.post({ content: { subject: 'b', text: 'b' } })
  await harness.runFor(hour)
  const before = calls.length
  return {
    harness,
    perhaps,
    exhausted,
    called: () => calls.length - before,
    recover: () => {
      isUp = true
    },
    redrive: (request: RedriveRequest) => harness.done(harness.gateway.gate.redrive(request)),
  }
}

test('a filter by channel leaves letters that may have arrived, and naming the cause, the id or all takes them', async () => {
  for (const [request, redriven] of [
    [{ channel: 'email' }, 1],
    [{ cause: 'outcome_unknown' }, 1],
    [{ all: true }, 2],
    [{ channel: 'email', all: true }, 2],
  ] as const) {
    const { harness, redrive, recover } = await withDeadLetters()
    recover()
    assert.equal((await redrive({ ...request, dryRun: true })).redriven, redriven)
    assert.equal((await redrive(request)).redriven, redriven, JSON.stringify(request))
    await harness.stop()
  }
  const { harness, perhaps, redrive, recover } = await withDeadLetters()
  recover()
  assert.deepEqual(await redrive({ ids: [perhaps.id] }), { redriven: 1, left: [] })
  await harness.stop()
})

test('a dry run counts and moves nothing', async () => {
  const { harness, exhausted, redrive, called } = await withDeadLetters()
  assert.deepEqual(await redrive({ all: true, dryRun: true }), { redriven: 2, left: [] })
  await harness.runFor(second)
  assert.equal(called(), 0)
  assert.equal((await harness.notification(exhausted.id)).status, 'dead')
  await harness.stop()
})

test('an id that is no dead letter is named with the reason', async () => {
  const { harness, exhausted, perhaps, redrive, recover } = await withDeadLetters()
  recover()
  const expired = await harness.post({
    expiresAt: harness.clock.now() + second,
    sendAt: harness.clock.now() + hour,
  })
  const cancelled = await harness.post({ sendAt: harness.clock.now() + hour })
  await harness.done(harness.gateway.gate.cancel('default', cancelled.id))
  await harness.runFor(2 * second)
  const ids = [exhausted.id, expired.id, cancelled.id, 'unheard-of']
  assert.deepEqual(await redrive({ ids, caller: 'default' }), {
    redriven: 1,
    left: [
      { notificationId: expired.id, why: 'expired' },
      { notificationId: cancelled.id, why: 'cancelled' },
      { notificationId: 'unheard-of', why: 'not_dead' },
    ],
  })
  const elsewhere = await redrive({ ids: [cancelled.id], caller: 'other' })
  assert.deepEqual(elsewhere.left, [{ notificationId: cancelled.id, why: 'not_dead' }])
  assert.equal((await harness.notification(perhaps.id)).status, 'dead')
  await harness.stop()
})

test('a letter for which its tenant has no room stays, and says so', async () => {
  const { provider } = createScripted(() => broken)
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: 'unlimited', modules: 'unlimited', waiting: 1 } } },
    parts: { providers: [provider] },
  })
  const { id } = await harness.post({})
  await harness.runFor(hour)
  await harness.post({ sendAt: harness.clock.now() + 2 * hour })
  const answer = await harness.done(harness.gateway.gate.redrive({ all: true }))
  assert.deepEqual(answer, { redriven: 0, left: [{ notificationId: id, why: 'queue_full' }] })
  assert.equal((await harness.notification(id)).status, 'dead')
  await harness.stop()
})

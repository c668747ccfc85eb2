/** One recipient whose newcomers are held up keeps nobody else back. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HeldUpError } from '../../src/errors.ts'
import { recipientSubject } from '../../src/policy/subject.ts'
import type { LimitState } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { broken, createScripted, delivered } from '../delivery/scripted.ts'
import { createHarness, hour, second } from '../harness.ts'

test('one recipient whose newcomers are held up for seconds keeps no other recipient of the tenant undecided', async () => {
  const clock = createVirtualClock(Date.UTC(2026, 10, 21, 12))
  let isHeldUp = true
  const harness = await createHarness({
    clock,
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', max: ['100/h'], over: 'delay' }],
    },
    parts: {
      wrapState: (state) => ({
        ...state,
        async reserve(requests) {
          if (isHeldUp && requests.some(({ subject, waited }) => subject.recipient === 'ada' && !waited)) {
            await new Promise<void>((resolve) => clock.at(clock.now() + second, resolve))
            throw new HeldUpError('ada')
          }
          return state.reserve(requests)
        },
      }),
    },
  })
  const draft = (id: string) => ({ to: { id, email: `${id}@example.com` } })
  const post = async (id: string) => {
    const posted = harness.tryPost(draft(id))
    await harness.runFor(2 * second)
    return (await posted).notification
  }
  const first = await post('ada')
  assert.equal(first.undecided, true)
  const eve = await post('eve')
  assert.equal(eve.undecided, undefined, 'another recipient is decided at once')
  const last = await post('ada')
  assert.equal(last.undecided, true)
  assert.equal((await harness.notification(eve.id)).status, 'delivered')
  isHeldUp = false
  await harness.runFor(3 * second)
  assert.deepEqual(
    harness.sent({ recipient: 'ada' }).map(({ id }) => id),
    [first.id, last.id],
  )
  await harness.check()
  await harness.stop()
})

test('a category that is refused meanwhile is told that its recipient is held up, not that the limits are away', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', max: ['100/h'], over: 'delay' }],
      onStateLost: { default: 'hold', security: 'refuse' },
    },
    parts: {
      wrapState: (state) => ({
        ...state,
        async reserve(requests) {
          if (requests.some(({ subject }) => subject.recipient === 'ada'))
            throw new HeldUpError('default/ada')
          return state.reserve(requests)
        },
      }),
    },
  })
  await assert.rejects(harness.tryPost({ category: 'security' }), {
    code: 'STATE_UNAVAILABLE',
    message:
      'New notifications to default/ada are held up: others that wait there move up. The policy refuses security meanwhile. Nothing was accepted.',
    retryAfterMs: 1_000,
  })
  assert.equal((await harness.post()).undecided, true)
  assert.equal((await harness.post({ category: 'security', recipient: 'eve' })).undecided, undefined)
  await harness.stop()
})

test('a redrive goes on with others where newcomers of one recipient are held up', async () => {
  let [isUp, isHeldUp] = [false, false]
  const { provider } = createScripted(() => (isUp ? delivered : broken))
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', max: ['100/h'], over: 'delay' }],
    },
    parts: {
      providers: [provider],
      wrapState: (state) => ({
        ...state,
        async reserve(requests) {
          if (isHeldUp && requests.some(({ subject }) => subject.recipient === 'ada'))
            throw new HeldUpError('ada')
          return state.reserve(requests)
        },
      }),
    },
  })
  const ada = await harness.post()
  const eve = await harness.post({ recipient: 'eve' })
  await harness.runFor(hour)
  assert.equal((await harness.notification(ada.id)).status, 'dead')
  isUp = true
  isHeldUp = true
  const { redriven } = await harness.done(harness.gateway.gate.redrive({ all: true }))
  assert.equal(redriven, 1)
  isHeldUp = false
  await harness.runFor(5 * second)
  assert.equal((await harness.notification(eve.id)).status, 'delivered')
  await harness.stop()
})

test('the usage of a recipient is told while newcomers are held up', async () => {
  let paused: LimitState | undefined
  const harness = await createHarness({
    parts: {
      wrapState(state) {
        paused = state
        return state
      },
    },
  })
  await harness.post()
  const subject = recipientSubject('default', 'ada')
  await paused!.pause([subject])
  let isTold = false
  void harness.gateway.gate.usage('default', 'ada').then(() => {
    isTold = true
  })
  await harness.runFor(second)
  await paused!.resume([subject])
  assert.equal(isTold, true)
  await harness.stop()
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock, Provider } from '../../src/ports.ts'
import { createHarness, densest, minute, second, seeded, testSeed } from '../harness.ts'

const policy = {
  version: 1,
  limits: [{ name: 'all', for: 'any', max: ['3/2s'], minGap: '200ms', over: 'delay' }],
}

/** A provider whose calls leave when `delayMs` says, and are answered then; gives the instants at which they left. */
async function behindSlowDoor(count: number, delayMs: (index: number) => number): Promise<readonly number[]> {
  let clock: Clock | undefined
  const left: number[] = []
  let calls = 0
  const provider: Provider = {
    name: 'sandbox',
    idempotent: false,
    tellsLeaving: true,
    channels: ['email'],
    async send(_message, _account, _signal, leaving) {
      const delay = delayMs(calls++)
      if (delay > 0) await new Promise<void>((resolve) => clock!.at(clock!.now() + delay, resolve))
      leaving?.()
      left.push(clock!.now())
      return { outcome: 'delivered' }
    },
    close: () => Promise.resolve(),
  }
  const harness = await createHarness({ policy, parts: { providers: [provider] } })
  clock = harness.clock
  for (let index = 0; index < count; index += 1) await harness.post()
  await harness.runFor(minute + count * second)
  assert.equal(harness.counts().delivered, count)
  await harness.stop()
  return left
}

test('what leaves late counts from when it left', async () => {
  const left = await behindSlowDoor(3, (index) => (index === 0 ? 100 : 0))
  assert.deepEqual(
    left.map((at) => at - left[0]!),
    [0, 220, 440],
  )
})

test('what has been handed over and has not left holds the others of that person up', async () => {
  const left = await behindSlowDoor(4, (index) => (index === 0 ? 1_000 : 0))
  assert.equal(densest(left, 200), 1)
  assert.equal(densest(left, 2_000), 3)
})

test('no window is over whatever the delays on the way out are', async (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const left = await behindSlowDoor(60, () => (chance() < 0.3 ? Math.floor(chance() * 3_000) : 0))
  assert.equal(densest(left, 200), 1)
  assert.equal(densest(left, 2_000), 3)
})

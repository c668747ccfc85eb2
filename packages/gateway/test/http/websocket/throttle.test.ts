/** The rate of a tenant's published messages, in virtual time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWindows } from '@sluice/limits'
import { createThrottle, type ThrottleOptions } from '../../../src/http/websocket/throttle.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'
import { densest, seeded, testSeed } from '../../harness.ts'

const start = Date.UTC(2026, 10, 21)

function createTrial(options: Partial<ThrottleOptions> & { readonly rate?: string } = {}) {
  const { rate = '200/s', ...more } = options
  const clock = createVirtualClock(start)
  const sent: { readonly n: number; readonly at: number }[] = []
  const throttle = createThrottle({
    clock,
    windows: rate === 'unlimited' ? [] : parseWindows(rate),
    marginMs: 0,
    waitingMax: 1_000,
    waitingBytesMax: 1_000_000,
    ...more,
  })
  return {
    clock,
    sent,
    throttle,
    publish: (n: number, bytes = 10) => throttle.publish(bytes, () => sent.push({ n, at: clock.now() })),
  }
}

test('messages above the rate are sent at the first instant that the window admits, in order', async () => {
  const { clock, sent, throttle, publish } = createTrial({ rate: '2/s' })
  assert.deepEqual(
    [publish(0), publish(1), publish(2), publish(3), publish(4)],
    ['sent', 'sent', 'throttled', 'throttled', 'throttled'],
  )
  assert.equal(throttle.size, 3)
  await clock.runUntil(start + 10_000)
  assert.deepEqual(
    sent.map(({ n, at }) => [n, at - start]),
    [
      [0, 0],
      [1, 0],
      [2, 1_000],
      [3, 1_000],
      [4, 2_000],
    ],
  )
})

test('no message passes the waiting ones, even at the instant at which the next may be sent', async () => {
  const { clock, sent, publish } = createTrial({ rate: '1/s' })
  publish(0)
  // Before the throttle's own timer for that instant.
  clock.at(start + 1_000, () => assert.equal(publish(2), 'throttled'))
  publish(1)
  await clock.runUntil(start + 5_000)
  assert.deepEqual(
    sent.map(({ n, at }) => [n, at - start]),
    [
      [0, 0],
      [1, 1_000],
      [2, 2_000],
    ],
  )
})

test('the margin is kept, and several windows all apply', async () => {
  const { clock, sent, publish } = createTrial({ rate: '2/s, 3/10s', marginMs: 20 })
  for (let n = 0; n < 4; n += 1) publish(n)
  await clock.runUntil(start + 20_000)
  assert.deepEqual(
    sent.map(({ at }) => at - start),
    [0, 0, 1_020, 10_020],
  )
})

test('too many and too large messages are refused, and those that fit are not', async () => {
  const { throttle, publish } = createTrial({ rate: '1/s', waitingMax: 2, waitingBytesMax: 100 })
  publish(0)
  assert.equal(publish(1, 101), 'full')
  assert.deepEqual(
    [publish(2, 60), publish(3, 60), publish(4, 40), publish(5, 1)],
    ['throttled', 'full', 'throttled', 'full'],
  )
  assert.equal(throttle.size, 2)
  throttle.stop()
  assert.equal(throttle.size, 0)
})

test('an unlimited tenant waits for nothing, and a throttle is idle when its windows are empty', async () => {
  const { publish } = createTrial({ rate: 'unlimited' })
  for (let n = 0; n < 5_000; n += 1) assert.equal(publish(n), 'sent')
  const trial = createTrial({ rate: '1/s' })
  assert.equal(trial.throttle.isIdle(), true)
  trial.publish(0)
  assert.equal(trial.throttle.isIdle(), false)
  await trial.clock.runUntil(start + 1_001)
  assert.equal(trial.throttle.isIdle(), true)
})

test(`no rolling window is exceeded, and nothing is lost or late, for any input (SLUICE_SEED=${testSeed})`, async () => {
  const chance = seeded(testSeed)
  for (let run = 0; run < 30; run += 1) {
    const max = 1 + Math.floor(chance() * 20)
    const { clock, sent, publish } = createTrial({ rate: `${max}/s`, waitingMax: 10_000 })
    const came: number[] = []
    for (let n = 0; n < 300; n += 1) {
      if (chance() < 0.3) await clock.runUntil(clock.now() + Math.floor(chance() * 400))
      came.push(clock.now())
      publish(n)
    }
    await clock.runUntil(clock.now() + 400_000)
    const instants = sent.map(({ at }) => at)
    assert.deepEqual(
      sent.map(({ n }) => n),
      came.map((_, n) => n),
    )
    assert.ok(densest(instants, 1_000) <= max)
    // As early as it came, as those before it, and as the window allows: nothing else may delay it.
    instants.forEach((at, n) => {
      const earliest = Math.max(
        came[n]!,
        instants[n - 1] ?? 0,
        (instants[n - max] ?? Number.NEGATIVE_INFINITY) + 1_000,
      )
      assert.equal(at, earliest)
    })
  }
})

test('what several processes share is asked for together, and messages keep their order', async () => {
  const asked: number[] = []
  const grants = [2, 1, 5]
  const { clock, sent, throttle, publish } = createTrial({
    rate: '2/s',
    async take(_rules, count) {
      asked.push(count)
      const taken = Math.min(count, grants.shift() ?? 0)
      return { taken, waitMs: taken < count ? 300 : 0 }
    },
  })
  const outcomes = [0, 1, 2, 3].map((n) => publish(n))
  await clock.runUntil(start + 10)
  assert.deepEqual(await Promise.all(outcomes), ['sent', 'sent', 'throttled', 'throttled'])
  assert.equal(publish(4), 'throttled')
  await clock.runUntil(start + 5_000)
  assert.deepEqual(
    sent.map(({ n, at }) => [n, at - start]),
    [
      [0, 0],
      [1, 0],
      [2, 300],
      [3, 300],
      [4, 300],
    ],
  )
  assert.deepEqual([asked, throttle.size], [[1, 3, 3], 0])
})

test('messages wait while nobody can count them, and those that wait are bounded', async () => {
  let isAway = true
  const { clock, sent, publish } = createTrial({
    rate: '2/s',
    waitingMax: 2,
    async take(_rules, count) {
      if (isAway) throw new Error('away')
      return { taken: count, waitMs: 0 }
    },
  })
  const outcomes = [publish(0), publish(1), publish(2)]
  await clock.runUntil(start + 1_000)
  assert.deepEqual(await Promise.all(outcomes), ['throttled', 'throttled', 'full'])
  assert.equal(sent.length, 0)
  isAway = false
  await clock.runUntil(start + 2_000)
  assert.deepEqual(
    sent.map(({ n }) => n),
    [0, 1],
  )
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InFlightSends } from '../../src/delivery/in-flight-sends.ts'
import { SluiceError } from '../../src/errors.ts'
import type { Notification } from '../../src/model.ts'
import type { Clock, LimitState, Provider, SendResult } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createHarness, densest, minute, second, seeded, testSeed } from '../harness.ts'

const policy = {
  version: 1,
  limits: [{ name: 'all', for: 'any', max: ['3/2s'], minGap: '200ms', over: 'delay' }],
}

/** Holds up calls of the limiter's state: for how long is said of the n-th call of a method, or that it is refused. */
type StateDelay = (method: string, count: number) => number | 'refused'

function slowState(delayOf: StateDelay, clock: () => Clock): (state: LimitState) => LimitState {
  const counts = new Map<string, number>()
  return (state) =>
    new Proxy(state, {
      get(target, name) {
        const value = Reflect.get(target, name, target) as unknown
        if (typeof value !== 'function' || name === 'close') return value
        return async (...args: unknown[]) => {
          const count = (counts.get(String(name)) ?? 0) + 1
          counts.set(String(name), count)
          const delay = delayOf(String(name), count)
          if (delay === 'refused') throw new SluiceError('STATE_UNAVAILABLE', 'It is away.')
          if (delay > 0) await new Promise<void>((resolve) => clock().at(clock().now() + delay, resolve))
          return value.apply(target, args)
        }
      },
    })
}

/** A provider whose calls are written and answered after `delayMs`; gives the instants of writing. */
async function behindSlowDoor(
  count: number,
  delayMs: (index: number) => number,
  answer: (index: number) => SendResult = () => ({ outcome: 'delivered' }),
  rules: object = policy,
  recipientOf: (index: number) => string = () => 'ada',
  stateDelay: StateDelay = () => 0,
): Promise<readonly number[]> {
  let clock: Clock | undefined
  const left: number[] = []
  let calls = 0
  const provider: Provider = {
    name: 'sandbox',
    idempotent: false,
    tellsWritten: true,
    channels: ['email'],
    async send(_message, _account, _signal, onWritten) {
      const index = calls++
      const delay = delayMs(index)
      if (delay > 0) await new Promise<void>((resolve) => clock!.at(clock!.now() + delay, resolve))
      onWritten?.()
      left.push(clock!.now())
      return answer(index)
    },
    close: () => Promise.resolve(),
  }
  const harness = await createHarness({
    policy: rules,
    parts: { providers: [provider], wrapState: slowState(stateDelay, () => clock!) },
  })
  clock = harness.clock
  for (let index = 0; index < count; index += 1)
    await harness.post({ recipient: recipientOf(index), actor: 'author' })
  await harness.runFor(minute + count * second)
  assert.equal(harness.counts().delivered, count)
  await harness.stop()
  return left
}

test('a call written late counts from when it was written', async () => {
  const left = await behindSlowDoor(3, (index) => (index === 0 ? 100 : 0))
  assert.deepEqual(
    left.map((at) => at - left[0]!),
    [0, 220, 440],
  )
})

test('a call handed over and not yet written delays others for the same recipient', async () => {
  const left = await behindSlowDoor(4, (index) => (index === 0 ? 300 : 0))
  assert.equal(densest(left, 200), 1)
  assert.equal(densest(left, 2_000), 3)
})

test('a call not yet written delays others of the same author, where a limit counts by author', async () => {
  const rules = {
    version: 1,
    limits: [{ name: 'author', for: 'any', per: ['actor'], max: ['1/s'], over: 'delay' }],
  }
  const delivers = (): SendResult => ({ outcome: 'delivered' })
  const delayMs = (index: number): number => (index === 0 ? 1_500 : 0)
  const left = await behindSlowDoor(3, delayMs, delivers, rules, (index) => `follower-${index}`)
  assert.equal(densest(left, second), 1)
})

test('no window is exceeded whatever the delays before writing', async (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const left = await behindSlowDoor(60, () => (chance() < 0.3 ? Math.floor(chance() * 3_000) : 0))
  assert.equal(densest(left, 200), 1)
  assert.equal(densest(left, 2_000), 3)
})

const onePerTwoSeconds = {
  version: 1,
  limits: [{ name: 'all', for: 'any', max: ['1/2s'], over: 'delay' }],
}
const delivers = (): SendResult => ({ outcome: 'delivered' })
const onlyAda = (): string => 'ada'

test('a call that was written late delays others until the limits have counted it, however slow they are', async () => {
  const delayMs = (index: number): number => (index === 0 ? 1_000 : 0)
  const stateDelay: StateDelay = (method, count) => (method === 'force' && count === 1 ? 1_500 : 0)
  const left = await behindSlowDoor(2, delayMs, delivers, onePerTwoSeconds, onlyAda, stateDelay)
  assert.equal(densest(left, 2 * second), 1)
})

test('a call that was written late is counted although the limits refuse at first', async () => {
  const delayMs = (index: number): number => (index === 0 ? 1_000 : 0)
  const stateDelay: StateDelay = (method, count) => (method === 'force' && count <= 6 ? 'refused' : 0)
  const left = await behindSlowDoor(2, delayMs, delivers, onePerTwoSeconds, onlyAda, stateDelay)
  assert.equal(densest(left, 2 * second), 1)
})

test('a call that leaves while another is fired slowly delays it until it is written', async () => {
  const stateDelay: StateDelay = (method, count) => (method === 'fire' && count === 1 ? 4_500 : 0)
  const delayMs = (index: number): number => (index === 0 ? 3_000 : 0)
  const left = await behindSlowDoor(2, delayMs, delivers, onePerTwoSeconds, onlyAda, stateDelay)
  assert.equal(densest(left, 2 * second), 1)
})

test('a call that was written and never answered counts besides its retry', async () => {
  const rules = { version: 1, limits: [{ name: 'all', for: 'any', max: ['2/20s'], over: 'delay' }] }
  const maybeDelivered: SendResult = { outcome: 'failed', detail: 'no answer in time', maybeDelivered: true }
  const silentOnce = (index: number): SendResult => (index === 0 ? maybeDelivered : { outcome: 'delivered' })
  const left = await behindSlowDoor(3, () => 0, silentOnce, rules)
  assert.equal(left.length, 4)
  assert.equal(densest(left, 20 * second), 2)
})

/** Tracks one call where other processes use the same limits, on a clock that can stand still as for a stopped process. */
function trackShared(keys: readonly string[] = ['ada'], shortestMs = second) {
  const clock = createVirtualClock(0)
  let stoppedMs = 0
  const call = {
    notification: {} as Notification,
    recipient: null,
    countsAt: 0,
    /** False while the limits do not answer. */
    isAnswered: true,
    countLate(now: number): undefined {
      if (call.isAnswered) call.countsAt = now
    },
    countAt: () => assert.fail('it is not written'),
  }
  const own = {
    now: () => clock.now() + stoppedMs,
    monotonic: () => clock.now() + stoppedMs,
    at: (instant: number, callback: () => void) => clock.at(instant - stoppedMs, callback),
  }
  const sends = new InFlightSends({
    clock: own,
    keysOf: () => keys,
    shortestWindowMs: () => shortestMs,
    isShared: true,
  })
  sends.add(call)
  const stop = (ms: number): void => {
    stoppedMs += ms
  }
  return { clock, call, sends, stop }
}

test('a call may be written however long its connection takes, while it is counted all the time', async () => {
  for (const keys of [['ada'], []]) {
    const { clock, call, sends } = trackShared(keys)
    for (let ms = 0; ms < 10 * second; ms += 50) {
      assert.equal(sends.mayLeave(call), true)
      await clock.runUntil(clock.now() + 50)
    }
  }
})

test('a call of a process that was stopped is never written', async () => {
  for (const keys of [['ada'], []]) {
    const { clock, call, sends, stop } = trackShared(keys)
    await clock.runUntil(250)
    stop(second)
    assert.equal(sends.mayLeave(call), false, 'its connection is open before any timer has run')
    await clock.runUntil(clock.now() + second)
    assert.equal(sends.mayLeave(call), false, 'timers have run since')
  }
})

test('a call that the limits do not count for a while is never written', async () => {
  const { clock, call, sends } = trackShared()
  call.isAnswered = false
  await clock.runUntil(250)
  assert.equal(sends.mayLeave(call), true)
  await clock.runUntil(400)
  assert.equal(sends.mayLeave(call), false)
  call.countsAt = clock.now()
  await clock.runUntil(500)
  assert.equal(sends.mayLeave(call), false, 'others may have used its place meanwhile')
})

test('a call that a short window counts is counted anew before three quarters of it are over, or never written', async () => {
  const { clock, call, sends } = trackShared(['ada'], 100)
  for (let ms = 0; ms < second; ms += 1) {
    assert.ok(clock.now() - call.countsAt <= 50, 'a quarter is left for the answer')
    assert.equal(sends.mayLeave(call), true)
    await clock.runUntil(clock.now() + 1)
  }
  call.isAnswered = false
  await clock.runUntil(call.countsAt + 76)
  assert.equal(sends.mayLeave(call), false, 'another call may be written when the window is over')
})

test('a call that no limit counts, or that counts a little earlier, is not counted before it is written', async () => {
  for (const [keys, ms] of [
    [[], 200],
    [['ada'], 15],
  ] as const) {
    const { clock, call, sends } = trackShared(keys)
    call.isAnswered = false
    await clock.runUntil(ms)
    assert.equal(sends.countBefore(call), undefined)
  }
})

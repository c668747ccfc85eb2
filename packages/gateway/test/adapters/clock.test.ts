import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSystemClock, lineAt } from '../../src/adapters/clock.ts'
import { continueTimeLine } from '../../src/composition/time-line.ts'
import { createLog } from '../../src/log.ts'
import type { TimeLine } from '../../src/ports.ts'

const hour = 3_600_000
const start = Date.UTC(2026, 10, 21, 12)

/** A wall clock and a monotonic one that a test moves. */
function setUp(wallAt = start) {
  const machine = { wallMs: wallAt, monotonicMs: 5_000 }
  const pass = (ms: number): void => {
    machine.wallMs += ms
    machine.monotonicMs += ms
  }
  const clock = createSystemClock({ wall: () => machine.wallMs, monotonic: () => machine.monotonicMs })
  return { machine, pass, clock }
}

test('the clock starts at the wall clock and follows the monotonic one, whatever the wall clock does', () => {
  const { machine, pass, clock } = setUp()
  assert.deepEqual([clock.now(), clock.aheadMs()], [start, 0])
  pass(1_500)
  assert.deepEqual([clock.now(), clock.aheadMs()], [start + 1_500, 0])
  machine.wallMs += hour
  assert.deepEqual([clock.now(), clock.aheadMs()], [start + 1_500, hour])
  machine.wallMs -= 3 * hour
  pass(500)
  assert.deepEqual([clock.now(), clock.aheadMs()], [start + 2_000, -2 * hour])
})

test('a wall clock that is off by a few milliseconds has not stepped; one that drifts away eventually has', () => {
  const { machine, clock } = setUp()
  machine.wallMs += 200
  assert.equal(clock.aheadMs(), 0)
  machine.wallMs += 200
  assert.equal(clock.aheadMs(), 400)
})

test('a step of the wall clock is reported once, with its size', (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { machine, clock } = setUp()
  const steps: number[] = []
  const forget = clock.onStep((byMs) => steps.push(byMs))
  t.mock.timers.tick(3_000)
  machine.wallMs -= hour
  t.mock.timers.tick(3_000)
  assert.deepEqual(steps, [-hour])
  forget()
  machine.wallMs += hour
  t.mock.timers.tick(3_000)
  assert.deepEqual(steps, [-hour])
})

test('the clock continues across processes: the offset of the wall clock stays, and time never goes back', () => {
  const { machine, pass, clock } = setUp()
  machine.wallMs += hour
  pass(10_000)
  const line = clock.line()
  assert.deepEqual(line, { at: start + 10_000, aheadMs: hour })

  const next = setUp(machine.wallMs + 2_000)
  next.clock.continueFrom(line)
  assert.deepEqual([next.clock.now(), next.clock.aheadMs()], [start + 12_000, hour])

  const setBackMeanwhile = setUp(machine.wallMs + 2_000 - 5 * hour)
  setBackMeanwhile.clock.continueFrom(line)
  assert.equal(setBackMeanwhile.clock.now(), start + 10_000, 'it goes on where it was')
  assert.equal(setBackMeanwhile.clock.aheadMs(), hour - 5 * hour + 2_000)
  assert.equal(lineAt(start, { at: start - 1, aheadMs: 0 }), start)
})

test('a wall clock that was slewed by less than a step does not move the time of the next process', () => {
  const { machine, pass, clock } = setUp()
  pass(10_000)
  machine.wallMs += 100
  const line = clock.line()
  assert.deepEqual(line, { at: start + 10_000, aheadMs: 100 })
  const next = setUp(machine.wallMs + 2_000)
  next.clock.continueFrom(line)
  assert.deepEqual([next.clock.now(), next.clock.aheadMs()], [start + 12_000, 0])
  // And the one behind that.
  const last = setUp(machine.wallMs + 3_000)
  last.clock.continueFrom(next.clock.line())
  assert.equal(last.clock.now(), start + 13_000)
})

test('how the wall clock stands is saved every ten seconds, and within a second where it moved by 5 ms', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const { pass, machine, clock } = setUp()
  const saved: TimeLine[] = []
  const store = {
    timeLine: async () => undefined,
    keepTimeLine: async (line: TimeLine) => void saved.push(line),
  }
  const log = createLog({ level: 'silent' })
  const errorsOf = () => (_: string, error: unknown) => assert.fail(error as Error)
  const stop = await continueTimeLine({ clock, log, errorsOf }, store)
  const second = async (): Promise<void> => {
    pass(1_000)
    t.mock.timers.tick(1_000)
    for (let turn = 0; turn < 5; turn += 1) await Promise.resolve()
  }
  for (let n = 0; n < 9; n += 1) await second()
  assert.deepEqual(saved, [{ at: start, aheadMs: 0 }])
  await second()
  assert.deepEqual(saved.at(-1), { at: start + 10_000, aheadMs: 0 })
  machine.wallMs += 4
  await second()
  assert.equal(saved.length, 2)
  machine.wallMs += 4
  await second()
  assert.deepEqual(saved.at(-1), { at: start + 12_000, aheadMs: 8 })
  await stop()
  assert.equal(saved.length, 4)
})

test('a gateway that stops while its time is being saved saves it once more, and never again', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const { pass, clock } = setUp()
  const saving: PromiseWithResolvers<void>[] = []
  const store = {
    timeLine: async () => undefined,
    keepTimeLine: () => {
      saving.push(Promise.withResolvers<void>())
      return saving.at(-1)!.promise
    },
  }
  const log = createLog({ level: 'silent' })
  const errorsOf = () => (_: string, error: unknown) => assert.fail(error as Error)
  const turns = async (): Promise<void> => {
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve()
  }
  const started = continueTimeLine({ clock, log, errorsOf }, store)
  await turns()
  saving[0]!.resolve()
  const stop = await started
  pass(10_000)
  t.mock.timers.tick(1_000)
  assert.equal(saving.length, 2, 'it is being saved')
  const stopped = stop()
  await turns()
  assert.equal(saving.length, 2, 'one at a time')
  saving[1]!.resolve()
  await turns()
  saving[2]!.resolve()
  await stopped
  for (let second = 0; second < 20; second += 1) {
    pass(1_000)
    t.mock.timers.tick(1_000)
    await turns()
  }
  assert.equal(saving.length, 3)
})

test('a timer waits for its duration, whatever the wall clock does', async () => {
  let wallMs = Date.now()
  const clock = createSystemClock({ wall: () => wallMs })
  const begun = performance.now()
  const { promise, resolve } = Promise.withResolvers<void>()
  clock.at(clock.now() + 60, resolve)
  clock.at(clock.now() + 60, () => assert.fail('it was called off'))()
  wallMs -= hour
  await promise
  const tookMs = performance.now() - begun
  assert.ok(tookMs >= 59, `after ${tookMs} ms`)
  wallMs += 2 * hour
  let early = true
  clock.at(clock.now() + 50, () => {
    early = false
  })
  await sleep(5)
  assert.equal(early, true)
})

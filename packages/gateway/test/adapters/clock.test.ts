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

/** Whatever a reading says is right to this, ms. */
const errorMs = 2

test('a clock that follows a server starts at its clock, whatever the wall clock of the machine says', () => {
  const { machine, pass, clock } = setUp()
  clock.follow({ leadMs: start - hour - machine.monotonicMs, errorMs })
  assert.deepEqual([clock.now(), clock.aheadMs()], [start - hour, 0])
  machine.wallMs += 5 * hour
  pass(1_500)
  assert.deepEqual([clock.now(), clock.aheadMs()], [start - hour + 1_500, 0])
})

test('a clock that drifts away from its server is slewed by half a millisecond a second, and never steps', () => {
  const { machine, pass, clock } = setUp()
  const leadMs = start - machine.monotonicMs
  clock.follow({ leadMs, errorMs })
  clock.follow({ leadMs: leadMs - 12, errorMs })
  let before = clock.now()
  for (let ms = 0; ms < 40_000; ms += 10) {
    pass(10)
    const now = clock.now()
    assert.ok(now - before >= 9 && now - before <= 10, `${now - before} ms in 10`)
    before = now
  }
  assert.equal(clock.now(), start + 40_000 - 10, 'as far as the reading is certain')
  assert.equal(clock.aheadMs(), 0)
})

test('a server whose clock is set leaves the line as it is, and times are shown by the new clock', () => {
  const { machine, clock, pass } = setUp()
  const leadMs = start - machine.monotonicMs
  clock.follow({ leadMs, errorMs })
  pass(2_000)
  clock.follow({ leadMs: leadMs + hour + 0.25, errorMs })
  assert.deepEqual([clock.now(), clock.aheadMs()], [start + 2_000, hour], 'in whole milliseconds')
  // Another process of the same record goes on where the line stands.
  const other = setUp(start + 7 * hour)
  other.clock.follow({ leadMs: start + 2_000 + hour - other.machine.monotonicMs, errorMs })
  other.clock.continueFrom(clock.line())
  assert.deepEqual([other.clock.now(), other.clock.aheadMs()], [start + 2_000, hour])
})

test('a clock that stood still with its machine goes on at that of the others', () => {
  const { machine, clock, pass } = setUp()
  const leadMs = start - machine.monotonicMs
  clock.follow({ leadMs, errorMs })
  pass(2_000)
  clock.follow({ leadMs: leadMs + 300, errorMs })
  assert.deepEqual(
    [clock.now(), clock.aheadMs()],
    [start + 2_000, 300],
    'as if the clock of the server was set',
  )
  clock.goOn(300)
  assert.deepEqual([clock.now(), clock.aheadMs()], [start + 2_300, 0])

  // A shorter one is slewed until the others tell of it.
  clock.follow({ leadMs: leadMs + 420, errorMs })
  pass(20_000)
  assert.equal(clock.now(), start + 22_310)
  clock.goOn(110)
  pass(20_000)
  assert.deepEqual([clock.now(), clock.aheadMs()], [start + 42_420, 0])
})

test('a right to send ends where the machine was suspended, before any server was asked', () => {
  const { machine, clock, pass } = setUp()
  clock.follow({ leadMs: start - machine.monotonicMs, errorMs })
  const begunAt = clock.monotonic()
  pass(100)
  machine.wallMs -= hour
  assert.equal(clock.monotonic() - begunAt, 100, 'a wall clock that is set back says nothing')
  machine.wallMs += 60_000
  assert.equal(clock.monotonic() - begunAt, 60_100)
  pass(100)
  assert.equal(clock.monotonic() - begunAt, 60_200)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isStateAway, SluiceError } from '../../src/errors.ts'
import { createStateHealth } from '../../src/observability/state-health.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

test('asks an absent server once in 100 ms, refuses all other questions at once, and goes on with the first answer', async () => {
  const clock = createVirtualClock(1_000_000)
  const events: string[] = []
  const line = ({ event }: { readonly event: string }): void => void events.push(event)
  const health = createStateHealth({ clock, log: { info: line, warn: line }, shown: 'redis://h' })
  let asked = 0
  let isAway = true
  const ask = (): Promise<boolean> =>
    health
      .ask(async () => {
        asked += 1
        if (isAway) throw new SluiceError('STATE_UNAVAILABLE', 'no answer in time')
        return true
      })
      .catch((error: unknown) => {
        assert.ok(isStateAway(error))
        return false
      })
  for (let n = 0; n < 3; n += 1) assert.equal(await ask(), false)
  assert.deepEqual([asked, events], [3, ['gateway.state_unavailable']])
  for (let n = 0; n < 50; n += 1) await ask()
  assert.equal(asked, 3)
  await clock.runUntil(1_000_100)
  for (let n = 0; n < 50; n += 1) await ask()
  assert.equal(asked, 4, 'one question tries')
  isAway = false
  await clock.runUntil(1_000_200)
  assert.deepEqual([await ask(), await ask()], [true, true])
  assert.deepEqual([asked, events.at(-1)], [6, 'gateway.state_available'])
})

test('while one question waits for an absent server no other does, nor directly behind its end', async () => {
  const clock = createVirtualClock(1_000_000)
  const health = createStateHealth({ clock, log: { info() {}, warn() {} }, shown: 'redis://h' })
  let asked = 0
  const ask = (): Promise<unknown> => {
    const asking = health.ask(async () => {
      asked += 1
      await new Promise<void>((resolve) => clock.at(clock.now() + 1_000, resolve))
      throw new SluiceError('STATE_UNAVAILABLE', 'no answer in time')
    })
    return asking.catch(() => {})
  }
  for (let n = 1; n <= 3; n += 1) await Promise.all([ask(), clock.runUntil(1_000_000 + n * 1_000)])
  await clock.runUntil(1_003_100)
  const first = ask()
  await clock.runUntil(1_003_900)
  void ask()
  assert.equal(asked, 4, 'the first waits')
  await Promise.all([first, clock.runUntil(1_004_150)])
  void ask()
  assert.equal(asked, 4, 'it has just ended')
  await clock.runUntil(1_004_250)
  await Promise.all([ask(), clock.runUntil(1_005_250)])
  assert.equal(asked, 5)
})

test('a server counts as away after three questions one after the other, however many were under way together', async () => {
  const events: string[] = []
  const line = ({ event }: { readonly event: string }): void => void events.push(event)
  const clock = createVirtualClock(1_000_000)
  const health = createStateHealth({ clock, log: { info: line, warn: line }, shown: 'redis://h' })
  const refuse = async () => {
    throw new SluiceError('STATE_UNAVAILABLE', 'no answer in time')
  }
  const askTogether = (): Promise<unknown> =>
    Promise.allSettled(Array.from({ length: 50 }, () => health.ask(refuse)))
  await askTogether()
  await askTogether()
  assert.deepEqual([events, health.counts().unanswered], [[], 100])
  await askTogether()
  assert.deepEqual(events, ['gateway.state_unavailable'])
})

test('tells the fault of the connection, and none that the server has answered since', async () => {
  const told: unknown[] = []
  const line = (fields: object): void => void told.push((fields as { err?: unknown }).err)
  const clock = createVirtualClock(1_000_000)
  const health = createStateHealth({ clock, log: { info: () => {}, warn: line }, shown: 'redis://h' })
  const full = new SluiceError('STATE_UNAVAILABLE', 'Redis at h could not be asked: OOM')
  const refused = new Error('ECONNREFUSED')
  const goAway = async () => {
    for (let n = 0; n < 3; n += 1) await assert.rejects(health.ask(() => Promise.reject(full)))
  }
  health.noteError(refused)
  await goAway()
  await clock.runUntil(1_000_200)
  await health.ask(async () => true)
  await goAway()
  assert.deepEqual(told, [refused, full])
  const refusal = async (): Promise<string> =>
    health.ask(() => Promise.reject(full)).then(String, (error: Error) => error.message)
  await clock.runUntil(1_000_300)
  const again = 'redis://h cannot be asked: Redis at h could not be asked: OOM'
  assert.deepEqual([await refusal(), await refusal()], ['Redis at h could not be asked: OOM', again])
  health.noteError(refused)
  await clock.runUntil(1_000_500)
  const down = 'redis://h cannot be asked: ECONNREFUSED'
  assert.deepEqual([await refusal(), await refusal()], [down, down])
})

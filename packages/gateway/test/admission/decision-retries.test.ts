import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createDecisionRetries } from '../../src/admission/decision-retries.ts'
import { SluiceError } from '../../src/errors.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const start = 1_000_000
const away = new SluiceError('STATE_UNAVAILABLE', 'Away.')

test('while an engine is away each is tried again within two seconds, and thousands a thousand times a second', async () => {
  const clock = createVirtualClock(start)
  const retries = createDecisionRetries(clock)
  const delays = (id: string, error?: unknown) => Array.from({ length: 9 }, () => retries.next(id, error))
  assert.deepEqual(delays('a', away).slice(0, 4), [500, 1_000, 2_000, 2_000])
  assert.equal(delays('b').at(-1), 60_000, 'a fault of its own has time')
  for (let n = 0; n < 4_000; n += 1) retries.next(`n${n}`, away)
  assert.equal(retries.next('a', away), 4_002)
  retries.decided('b')
  assert.equal(retries.next('a', away), 4_001)
  await clock.runUntil(start + 121_000)
  retries.next('c', away)
  assert.deepEqual(delays('a', away).at(-1), 2_000, 'the others have ended another way')
})

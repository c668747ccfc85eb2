/** Readings of a server's clock: the one that may be wrong by least counts, until the clock was set. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ServerReadings } from '../../../src/store/postgres/fleet/server-clock.ts'

test('the quickest of the last eight readings counts', () => {
  const readings = new ServerReadings()
  readings.add({ leadMs: 1_000, errorMs: 1 })
  for (let index = 0; index < 7; index += 1) readings.add({ leadMs: 1_004, errorMs: 20 })
  assert.equal(readings.best?.leadMs, 1_000)
  readings.add({ leadMs: 1_004, errorMs: 19 })
  assert.equal(readings.best?.leadMs, 1_004)
})

test('a reading of a process that was stopped meanwhile counts only where there is no other', () => {
  const readings = new ServerReadings()
  readings.add({ leadMs: 31_000, errorMs: 30_000 })
  assert.equal(readings.best?.leadMs, 31_000)
  readings.add({ leadMs: 1_000, errorMs: 1 })
  readings.add({ leadMs: 31_000, errorMs: 30_000 })
  assert.equal(readings.best?.leadMs, 1_000)
})

test('a clock that was set is believed with the first reading that shows it', () => {
  const readings = new ServerReadings()
  readings.add({ leadMs: 1_000, errorMs: 1 })
  readings.add({ leadMs: 1_020, errorMs: 12 })
  assert.equal(readings.best?.leadMs, 1_000, 'both may be true')
  readings.add({ leadMs: 3_601_000, errorMs: 50 })
  assert.equal(readings.best?.leadMs, 3_601_000)
})

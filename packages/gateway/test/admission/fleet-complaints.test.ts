import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFleetComplaints, type FleetComplaintsOptions } from '../../src/admission/fleet-complaints.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

/** The instants at which readings begin that take so long, ms, one after the other; the last duration goes on. */
async function readings(tookMs: readonly number[], untilMs: number): Promise<readonly number[]> {
  const clock = createVirtualClock(0)
  const unasked = {} as Omit<FleetComplaintsOptions, 'clock'>
  const begun: number[] = []
  const stop = createFleetComplaints({ ...unasked, clock }).every(async () => {
    begun.push(clock.now())
    const { promise, resolve } = Promise.withResolvers<void>()
    clock.at(clock.now() + tookMs[Math.min(begun.length, tookMs.length) - 1]!, resolve)
    await promise
  })
  await clock.runUntil(untilMs)
  stop()
  return begun
}

test('totals are read every second, also behind one reading that met a busy machine', async () => {
  assert.deepEqual(await readings([0, 4_000, 0], 9_000), [1_000, 2_000, 7_000, 8_000, 9_000])
  assert.deepEqual(await readings([4_000, 0], 7_000), [1_000, 6_000, 7_000])
})

test('readings that stay slow rest ten times as long, and ten seconds at most', async () => {
  assert.deepEqual(await readings([200], 8_000), [1_000, 2_200, 4_400, 6_600])
  assert.deepEqual(await readings([3_000], 40_000), [1_000, 5_000, 18_000, 31_000])
})

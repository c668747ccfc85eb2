/**
 * Every flow that reads and then commits, met at each of its calls to the store by another writer, a refused commit, a
 * store that fails, and the end of the process: whatever comes when, each notification comes to its end, in time.
 * Here some of them by the seed; all of them, some thousands in a few minutes, with SLUICE_EVERY=1.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seeded, testSeed } from '../harness.ts'
import { disturb, eventsOf, observe } from '../interference.ts'
import { flows } from './flows.ts'

const isEvery = process.env.SLUICE_EVERY === '1'
/** Of each flow. */
const sampleMax = 8

for (const flow of flows) {
  test(`${flow.name}: nothing is lost and nothing late, whatever comes between`, async (t) => {
    const undisturbed = await observe(flow)
    const all = eventsOf(flow, undisturbed.calls)
    const chance = seeded(testSeed + flow.name.length)
    const some = isEvery ? all : all.filter(() => chance() < sampleMax / all.length)
    t.diagnostic(
      `seed ${testSeed}: ${some.length} of ${all.length} events at ${undisturbed.calls.length} calls`,
    )
    assert.ok(some.length > 0)
    for (const disturbed of some) await disturb(flow, disturbed, undisturbed)
  })
}

/**
 * Every flow that reads and then commits, met at each of its calls to the store by another writer, a refused commit, a
 * store that fails, and the end of the process, and at each of its awaits by another writer and the end of the process:
 * whatever comes when, each notification comes to its end, in time. Here some of them by the seed, and of a closing a
 * join and an end at every await; all of all flows, some ten thousand, with SLUICE_EVERY=1, of one flow with
 * SLUICE_FLOW=<its name>.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seeded, testSeed } from '../harness.ts'
import type { Disturbed } from '../interfered-store.ts'
import { disturb, eventsAtAwaits, eventsAtCalls, isMetInAnyCase, observe } from '../interference.ts'
import { flows } from './flows.ts'

const isEvery = process.env.SLUICE_EVERY === '1'
const only = process.env.SLUICE_FLOW
/** Samples of each flow at its calls, and as many at its awaits; one more in any case. */
const sampleMax = 2

for (const flow of flows.filter(({ name }) => only === undefined || name === only)) {
  test(`${flow.name}: nothing is lost and nothing late, whatever comes between`, async (t) => {
    const undisturbed = await observe(flow)
    const chance = seeded(testSeed + flow.name.length)
    const sampleOf = (all: readonly Disturbed[]): readonly Disturbed[] => {
      const one = all[Math.floor(chance() * all.length)]
      const isChosen = (each: Disturbed): boolean => each === one || chance() < sampleMax / all.length
      return all.filter((each) => isEvery || isChosen(each) || isMetInAnyCase(flow, undisturbed, each))
    }
    const { calls, left } = undisturbed
    const [atCalls, atAwaits] = [eventsAtCalls(flow, undisturbed), eventsAtAwaits(flow, undisturbed)]
    const [some, others] = [sampleOf(atCalls), sampleOf(atAwaits)]
    t.diagnostic(
      `seed ${testSeed}: ${some.length} of ${atCalls.length} events at ${calls.length} calls, ` +
        `${others.length} of ${atAwaits.length} at ${left.length} awaits`,
    )
    assert.ok(some.length + others.length > 0)
    for (const disturbed of [...some, ...others]) await disturb(flow, disturbed, undisturbed)
  })
}

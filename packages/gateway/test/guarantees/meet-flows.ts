/** Meets every flow of flows.ts at its calls to the store and at its awaits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seeded, testSeed } from '../harness.ts'
import type { Disturbed } from '../interfered-store.ts'
import { disturb, eventsAtAwaits, eventsAtCalls, isMetInAnyCase, observe } from '../interference.ts'
import type { flows } from './flows.ts'

const isEvery = process.env.SLUICE_EVERY === '1'
const only = process.env.SLUICE_FLOW
/** Samples of each flow at its calls, and as many at its awaits; one more in any case. */
const sampleMax = 2

/**
 * Registers a test for each flow.
 *
 * @param whollyOf - of the awaits at which a flow is met in any case one of so many is met, by the seed
 */
export function meetFlows(all: typeof flows, whollyOf: number): void {
  for (const flow of all.filter(({ name }) => only === undefined || name === only)) {
    test(`${flow.name}: nothing is lost and nothing late, whatever comes between`, async (t) => {
      const undisturbed = await observe(flow)
      const chance = seeded(testSeed + flow.name.length)
      const isMet = (each: Disturbed): boolean =>
        isMetInAnyCase(flow, undisturbed, each) &&
        'await' in each.at &&
        (each.at.await + testSeed) % whollyOf === 0
      const sampleOf = (events: readonly Disturbed[]): readonly Disturbed[] => {
        const one = events[Math.floor(chance() * events.length)]
        const isChosen = (each: Disturbed): boolean => each === one || chance() < sampleMax / events.length
        return events.filter((each) => isEvery || isChosen(each) || isMet(each))
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
}

/**
 * One sequence of random calls of several processes to one record, of which some die meanwhile: the answers of the record in
 * memory, on which the simulator of a fleet runs, are compared with those of an engine, call by call, and now and then
 * everything that one process sees.
 */
import assert from 'node:assert/strict'
import type { Store } from '../../../src/ports.ts'
import { seeded } from '../../harness.ts'
import { changesOf } from './fleet-changes.ts'
import { choresOf } from './fleet-chores.ts'
import { holdingOf } from './fleet-holding.ts'
import { countsOf, overview } from './fleet-overview.ts'
import { createFleetWorld, type FleetPair } from './fleet-world.ts'

export interface FleetSequence {
  readonly seed: number
  /** Calls of the sequence. */
  readonly steps: number
  /** Two records that are empty. */
  readonly pair: FleetPair
}

/** Calls between two comparisons of everything. */
const everythingEvery = 60

/** Runs one sequence; throws at the first difference. */
export async function compareFleets({ seed, steps, pair }: FleetSequence) {
  const world = createFleetWorld(seeded(seed), pair)
  const { below, pick, members, living, compare, digests, jobs, rows, counts, nextStep } = world
  for (let n = 0; n < 3; n += 1) members.push(await pair.join())
  const holding = holdingOf(world)
  const calls = [...changesOf(world), ...holding, ...choresOf(world)]
  for (let step = 0; step < steps; step += 1) {
    // Every third call is one of those by which processes take from each other.
    await (below(3) > 0 ? pick(calls) : pick(holding))()
    if (step % everythingEvery === everythingEvery - 1 || step === steps - 1) {
      const look = (store: Store) => overview(store, digests.slice(-20), jobs.slice(-10))
      await compare('everything', living(), look, (seen) => seen)
      const [expected, found] = await Promise.all(pair.records.map(countsOf))
      assert.deepEqual(found, expected, `the counts of all processes at step ${step}`)
    }
    nextStep()
  }
  return { ...counts, onRecord: rows.size }
}

/**
 * The suite that every store of the limiter must pass, for node:test. A store that passes it admits what the
 * literal model admits, at the same instants and with the same reasons, under a clock that the suite moves: a store
 * whose time is a server's takes the given clock in its place for this purpose.
 */
import { describe } from 'node:test'
import { exerciseBatches } from './batches.ts'
import { exerciseBlocking } from './blocking.ts'
import { exerciseBooking } from './booking.ts'
import { exerciseCounting } from './counting.ts'
import { type Capabilities, type CreateStore, opener } from './fixture.ts'
import { exerciseRepeating } from './repeating.ts'
import { exerciseRetention } from './retention.ts'
import { exerciseUpkeep } from './upkeep.ts'

export type { Capabilities, CreateStore, StoreFixture, StoreWorld } from './fixture.ts'
export { type ModelStore, modelStore } from './model.ts'
export { type Random, seededRandom, seedOfRun } from './random.ts'

/** Registers the suite. `createStore` opens an empty store on the given clock, once for each test. */
export function exerciseStore(createStore: CreateStore, capabilities: Capabilities): void {
  const open = opener(createStore)
  describe(`${capabilities.name} is a store of the limiter`, () => {
    exerciseCounting(open)
    exerciseBooking(open)
    exerciseBatches(open)
    exerciseBlocking(open)
    exerciseRepeating(open)
    if (capabilities.forgets !== false) exerciseRetention(open)
    exerciseUpkeep(open, capabilities)
  })
}

/**
 * What a conformance test stands on: a fresh store, limits over it, and a clock that the test moves.
 */
import type { TestContext } from 'node:test'
import { createLimits, type Limits } from '../limits.ts'
import type { Store } from '../store.ts'
import type { World } from './differential.ts'

export interface StoreFixture {
  /** Empty, and nobody else's. */
  readonly store: Store
  close?(): Promise<void> | void
}

/** Opens an empty store whose time is `world.now()`. */
export type CreateStore = (world: { readonly now: () => number }) => StoreFixture | Promise<StoreFixture>

export interface Capabilities {
  /** Stands in the names of the tests. */
  readonly name: string
  /**
   * How many random operations are compared with the model.
   *
   * @defaultValue 20_000
   */
  readonly operations?: number
}

export interface Bench {
  readonly limits: Limits
  readonly store: Store
  readonly world: World
}

export type Open = (t: TestContext) => Promise<Bench>

/** A Saturday noon; any other instant would do. */
const startMs = Date.UTC(2026, 10, 21, 12)

export function opener(createStore: CreateStore): Open {
  return async (t) => {
    const world = { now: startMs }
    const fixture = await createStore({ now: () => world.now })
    t.after(async () => fixture.close?.())
    return { world, store: fixture.store, limits: createLimits({ store: fixture.store }) }
  }
}

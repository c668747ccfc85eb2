/**
 * The fixture of a conformance test: a fresh store, limits over it, and a clock that the test moves.
 */
import type { TestContext } from 'node:test'
import type { Store } from '@sluice/limits'
import { createLimits, type Limits } from '@sluice/limits'
import type { World } from './differential.ts'

export interface StoreFixture {
  /** Empty, and nobody else's. */
  readonly store: Store
  close?(): Promise<void> | void
}

/** The settings with which a store is opened, named as its options. */
export interface StoreWorld {
  /** Its time. */
  readonly now: () => number
  /** The time for which it keeps what counted at least, ms. */
  readonly retentionMs: number
}

/** Opens an empty store in this world. */
export type CreateStore = (world: StoreWorld) => StoreFixture | Promise<StoreFixture>

export interface Capabilities {
  /** Stands in the names of the tests. */
  readonly name: string
  /**
   * How many random operations are compared with the model.
   *
   * @defaultValue 20_000
   */
  readonly operations?: number
  /**
   * True for a store that forgets entries that can matter no more. The model of the suite keeps everything.
   *
   * @defaultValue true
   */
  readonly forgets?: boolean
}

interface Bench {
  readonly limits: Limits
  readonly store: Store
  readonly world: World
}

/** `retentionMs` is long where nothing else is said, so that what a test asks late is still there. */
export type Open = (t: TestContext, retentionMs?: number) => Promise<Bench>

const longRetentionMs = 31 * 86_400_000

/** A Saturday noon; any other instant would do. */
const startMs = Date.UTC(2026, 10, 21, 12)

export function opener(createStore: CreateStore): Open {
  return async (t, retentionMs = longRetentionMs) => {
    const world = { now: startMs }
    const fixture = await createStore({ now: () => world.now, retentionMs })
    t.after(async () => fixture.close?.())
    return { world, store: fixture.store, limits: createLimits({ store: fixture.store }) }
  }
}

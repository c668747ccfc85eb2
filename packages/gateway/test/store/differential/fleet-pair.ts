/** One process of a fleet at two records, of which one is the model: what it asks, and the comparison of the answers. */
import assert from 'node:assert/strict'
import type { Store } from '../../../src/ports.ts'
import { plain } from './everything.ts'

/** A process as both see it. */
export interface Member {
  readonly id: string
  readonly model: Store
  readonly engine: Store
  setClock(now: number): void
}

/** Asks one process at both. */
export const both = async <T>(member: Member, call: (store: Store) => T | Promise<T>) =>
  [await call(member.model), await call(member.engine)] as const
const codeOf = (error: unknown): string => `error ${(error as { code?: string }).code}`

/** Makes the function that asks both, of which each may refuse, and compares what `of` makes of the answers. */
export function createComparison(place: () => string) {
  return async function compare<T>(
    what: string,
    { id, model, engine }: Member,
    call: (store: Store) => T | Promise<T>,
    of: (value: T) => unknown = plain,
  ): Promise<readonly [T, T] | undefined> {
    const subject = `${what} by ${id} ${place()}`
    let expected: T
    try {
      expected = await call(model)
    } catch (error) {
      await assert.rejects(
        async () => call(engine),
        (found) => codeOf(found) === codeOf(error),
        subject,
      )
      return undefined
    }
    // An engine that does not answer in time throws here: that is no difference.
    const found = await call(engine)
    assert.deepEqual(of(found), of(expected), subject)
    return [expected, found]
  }
}

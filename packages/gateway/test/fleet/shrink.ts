/** Leaves out one fault after the other, halves first, as long as the same invariant is broken. */
import type { RunResult } from './fleet.ts'

/** Runs that shrinking may take. */
const runsMax = 400

/** Returns the faults without which the invariant holds. */
export async function shrink(
  invariant: string,
  struck: readonly string[],
  runWithout: (without: ReadonlySet<string>) => Promise<RunResult>,
): Promise<readonly string[]> {
  let runs = 0
  const without = new Set<string>()

  async function isBrokenWithout(some: readonly string[]): Promise<boolean> {
    runs += 1
    const { violations } = await runWithout(new Set([...without, ...some]))
    return violations.some((violation) => violation.invariant === invariant)
  }

  for (let size = Math.ceil(struck.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    const left = struck.filter((name) => !without.has(name))
    for (let index = 0; index < left.length && runs < runsMax; index += size) {
      const some = left.slice(index, index + size)
      if (await isBrokenWithout(some)) for (const name of some) without.add(name)
    }
  }
  return struck.filter((name) => !without.has(name))
}

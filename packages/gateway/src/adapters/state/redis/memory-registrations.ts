/** The registrations of limiter servers for one process, counted in memory. A fleet counts them in its store. */
import type { Registrations, ServerLife } from '../../../ports/limiter.ts'
import type { Random } from '../../../ports.ts'

/**
 * Draws a number behind which no process has counted before: one of 2⁵². So what an earlier process left in a server, or one
 * whose store was restored from a backup since, bears another number, and is unknown. A thousand starts of ten
 * registrations each share a number with a probability of 10⁻⁹.
 */
export const randomNumber = (random: Pick<Random, 'next'>): number =>
  Math.floor(random.next() * 2 ** 20) * 2 ** 32 + Math.floor(random.next() * 2 ** 32)

/** @param last - the number before the first one. @defaultValue 0, for a server that nobody has used before */
export function createMemoryRegistrations(last = 0): Registrations {
  /** The newest life of each node, with its number. As many as there are nodes. */
  const newest = new Map<string, { readonly life: ServerLife; readonly number: number }>()
  let given = last

  return {
    register(life) {
      const known = newest.get(life.node)
      if (known?.life.runId === life.runId && known.life.replicationId === life.replicationId)
        return known.number
      given += 1
      newest.set(life.node, { life, number: given })
      return given
    },
  }
}

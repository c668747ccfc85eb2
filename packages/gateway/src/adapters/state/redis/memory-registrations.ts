/** The registrations of limiter servers for one process, counted in memory. A fleet counts them in its store. */
import { SluiceError } from '../../../errors.ts'
import type { Keeping, Registrations, ServerLife } from '../../../ports/limiter.ts'
import type { Random } from '../../../ports.ts'

/**
 * Draws a number behind which no process has counted before: one of 2⁵². So what an earlier process left in a server, or one
 * whose store was restored from a backup since, bears another number, and is unknown. A thousand starts of ten
 * registrations each share a number with a probability of 10⁻⁹.
 */
export const randomNumber = (random: Pick<Random, 'next'>): number =>
  Math.floor(random.next() * 2 ** 20) * 2 ** 32 + Math.floor(random.next() * 2 ** 32)

/** Registrations of servers, and of a process that keeps the limits while they are away. */
export interface MemoryRegistrations extends Registrations {
  /** One process has one place. */
  register(life: ServerLife): number
  readonly keeping: Keeping
}

/**
 * @param last - the number before the first one. @defaultValue 0, for a server that nobody has used before
 * @param member - the name of this process. @defaultValue 'alone'
 */
export function createMemoryRegistrations(last = 0, member = 'alone'): MemoryRegistrations {
  /** The newest life of each node, with its number. As many as there are nodes. */
  const newest = new Map<string, { readonly life: ServerLife; readonly number: number }>()
  let given = last
  let kept: number | undefined

  return {
    register(life) {
      if (kept !== undefined)
        throw new SluiceError('STATE_UNAVAILABLE', 'This gateway keeps the limits.', { retryAfterMs: 1_000 })
      const known = newest.get(life.node)
      if (known?.life.runId === life.runId && known.life.replicationId === life.replicationId)
        return known.number
      given += 1
      newest.set(life.node, { life, number: given })
      return given
    },
    keeping: {
      async standIn() {
        if (kept === undefined) {
          given += 1
          kept = given
          // Every server is unknown from now on.
          newest.clear()
        }
        return { number: kept, keeper: member, isReachable: false }
      },
      async stepDown() {
        kept = undefined
      },
      // Nobody else holds anything.
      handOver: async () => [],
    },
  }
}

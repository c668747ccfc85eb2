/** The registrations of limiter servers for one process, counted up from 1. A fleet counts them in its store. */
import type { Registrations, ServerLife } from '../../../ports/limiter.ts'

export function createMemoryRegistrations(): Registrations {
  /** The newest life of each node, with its number. As many as there are nodes. */
  const newest = new Map<string, { readonly life: ServerLife; readonly number: number }>()
  let last = 0

  return {
    register(life) {
      const known = newest.get(life.node)
      if (known?.life.runId === life.runId && known.life.replicationId === life.replicationId)
        return known.number
      last += 1
      newest.set(life.node, { life, number: last })
      return last
    },
  }
}

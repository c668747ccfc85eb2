/** Requests in progress of this process. As many as the server answers at the same time. */
import type { Once, OnceKey } from '../../ports/fleet.ts'

const nameOf = ({ tenant, module, method, path, key }: OnceKey): string =>
  JSON.stringify([tenant, module, method, path, key])

export function createMemoryOnce(): Once {
  /** The hash of the body of each request, by name. */
  const inProgress = new Map<string, string>()

  return {
    begin(key, requestHash) {
      const name = nameOf(key)
      const other = inProgress.get(name)
      if (other !== undefined) return other === requestHash ? 'busy' : 'mismatch'
      inProgress.set(name, requestHash)
      return 'new'
    },
    end(key) {
      inProgress.delete(nameOf(key))
    },
  }
}

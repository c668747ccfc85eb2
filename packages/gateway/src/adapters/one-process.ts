/**
 * A gateway that is alone with its store answers these ports by itself: it is the only member, its hints go to processes that
 * are composed in the same process of Node (those of a simulation), and it knows all requests in progress.
 */
import type { Hint, Members, Notifier, Once, OnceKey } from '../ports/fleet.ts'
import type { Clock, Random } from '../ports.ts'

// ---- members
//
// The members of a gateway that is alone with its store: this process, which does every chore until it stops.

export function createOneMember(random: Pick<Random, 'id'>, clock: Pick<Clock, 'now'>): Members {
  let isOpen = true
  return {
    id: random.id(clock.now()),
    count: () => 1,
    othersServe: () => false,
    policiesLeft: () => '',
    announcePolicy: async () => {},
    holds: () => isOpen,
    // Nobody else has the record.
    onDeath: () => () => {},
    async close() {
      isOpen = false
    },
  }
}

// ---- hints
//
// Hints among processes that are composed in one process of Node: one gateway alone, or those of a simulation.

export interface LocalHints {
  /** Adds a process. */
  join(): Notifier
}

export function createLocalHints(): LocalHints {
  const members = new Set<Set<(hint: Hint) => void>>()
  return {
    join() {
      const own = new Set<(hint: Hint) => void>()
      members.add(own)
      return {
        tell(hint) {
          if (!members.has(own)) return
          for (const listeners of members) {
            if (listeners === own) continue
            // Not within the call: whoever tells goes on first, as with a network in between.
            for (const listener of listeners)
              queueMicrotask(() => {
                if (listeners.has(listener)) listener(hint)
              })
          }
        },
        listen(listener) {
          own.add(listener)
          return () => void own.delete(listener)
        },
        async close() {
          members.delete(own)
          own.clear()
        },
      }
    },
  }
}

// ---- requests in progress
//
// Requests in progress of this process. As many as the server answers at the same time.

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

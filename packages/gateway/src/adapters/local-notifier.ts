/** Hints among processes that are composed in one process of Node: one gateway alone, or those of a simulation. */
import type { Hint, Notifier } from '../ports/fleet.ts'

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

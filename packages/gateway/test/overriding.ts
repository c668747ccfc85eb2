/** A store of which tests replace single methods: to refuse, to delay or to count their calls. */
import type { Store } from '../src/ports.ts'

/** The store with these methods in place of its own; the others stay those of the store. */
export function overriding(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name) {
      const replaced = Reflect.get(methods, name) as unknown
      if (replaced !== undefined) return replaced
      const value = Reflect.get(target, name, target) as unknown
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

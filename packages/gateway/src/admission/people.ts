/** What is known of people, kept in memory for those who were asked for of late. The store has everyone. */

import type { People } from '../doors.ts'
import type { Recipient } from '../model.ts'
import type { Store } from '../ports.ts'

export interface PeopleOptions {
  readonly store: Pick<Store, 'recipient' | 'mayHave'>
  /** People kept in memory. @defaultValue 20_000 */
  readonly peopleMax?: number
}

export interface PeopleCache extends People {
  /** What was just written. */
  put(person: Recipient): void
  /** The store is asked again. */
  forget(tenant: string, recipient: string): void
}

export function createPeople(options: PeopleOptions): PeopleCache {
  const halfMax = (options.peopleMax ?? 20_000) / 2
  // Two generations: what is asked for again moves to the young one; when that is full the old one is forgotten.
  let young = new Map<string, Recipient | null>()
  let old = new Map<string, Recipient | null>()
  const keyOf = (tenant: string, recipient: string): string => `${tenant}\n${recipient}`

  function put(key: string, person: Recipient | null): void {
    young.set(key, person)
    if (young.size >= halfMax) {
      old = young
      young = new Map()
    }
  }

  function cached(tenant: string, recipient: string): Recipient | null | undefined {
    // Nearly nobody has told us anything.
    if (!options.store.mayHave('preferences', tenant, recipient)) return null
    const key = keyOf(tenant, recipient)
    const person = young.get(key)
    if (person !== undefined) return person
    const older = old.get(key)
    if (older !== undefined) put(key, older)
    return older
  }

  return {
    cached,
    async find(tenant, recipient) {
      const known = cached(tenant, recipient)
      if (known !== undefined) return known
      const person = (await options.store.recipient(tenant, recipient)) ?? null
      // Somebody may have written this person while the store was asked.
      const meanwhile = cached(tenant, recipient)
      if (meanwhile !== undefined) return meanwhile
      put(keyOf(tenant, recipient), person)
      return person
    },
    forget(tenant, recipient) {
      const key = keyOf(tenant, recipient)
      young.delete(key)
      old.delete(key)
    },
    put(person) {
      const key = keyOf(person.tenant, person.id)
      old.delete(key)
      put(key, person)
    },
  }
}

/**
 * Keeps in memory which notifications are left to the broker, for a store that one process has for itself. After a restart
 * nothing is left to the broker: the store gives everything due out again, and messages from before find nothing.
 */
import type { Priority } from '../../model.ts'
import { type LeftToBroker, type OutgoingVersion, outgoingVersion } from '../../ports/outgoing.ts'
import type { Store } from '../../ports.ts'

interface Left extends OutgoingVersion {
  readonly priority: Priority
}

/** @param store a store of one process */
export function createLocalLeft(store: Pick<Store, 'notification' | 'releaseDue'>): LeftToBroker {
  /** By tenant and id. A tenant with none has no entry. */
  const left = new Map<string, Map<string, Left>>()

  function remove(tenant: string, id: string): void {
    const own = left.get(tenant)
    own?.delete(id)
    if (own?.size === 0) left.delete(tenant)
  }

  function add(tenant: string, entry: Left): void {
    const own = left.get(tenant) ?? new Map<string, Left>()
    left.set(tenant, own.set(entry.id, entry))
  }

  /** Reads what is still on record in the version that was left, and forgets the entries; all stay where a read fails. */
  async function removed(tenant: string, entries: readonly Left[]) {
    for (const { id } of entries) remove(tenant, id)
    try {
      const found = await Promise.all(entries.map(({ id }) => store.notification(tenant, id)))
      return found.filter(
        (each, index) => each !== undefined && isSame(outgoingVersion(each), entries[index]!),
      )
    } catch (error) {
      for (const entry of entries) add(tenant, entry)
      throw error
    }
  }

  return {
    async leave(notifications) {
      for (const each of notifications)
        add(each.tenant, { ...outgoingVersion(each), priority: each.priority })
    },
    async take(messages) {
      const asked = messages.flatMap((message) => {
        const entry = left.get(message.tenant)?.get(message.id)
        return entry !== undefined && isSame(entry, message) ? [{ tenant: message.tenant, entry }] : []
      })
      const byTenant = [...Map.groupBy(asked, ({ tenant }) => tenant)]
      const taken = await Promise.all(
        byTenant.map(([tenant, own]) =>
          removed(
            tenant,
            own.map(({ entry }) => entry),
          ),
        ),
      )
      return taken.flat().filter((each) => each !== undefined)
    },
    async free({ tenant, priority, dueBy, limit }) {
      const entries = [...(left.get(tenant)?.values() ?? [])]
        .filter((entry) => entry.dueAt <= dueBy && (priority ?? entry.priority) === entry.priority)
        .toSorted((a, b) => a.dueAt - b.dueAt)
        .slice(0, limit)
      const waiting = (await removed(tenant, entries)).filter((each) => each !== undefined)
      try {
        await store.releaseDue(waiting)
      } catch (error) {
        for (const entry of entries) add(tenant, entry)
        throw error
      }
      return entries.length
    },
    tenants: async () => [...left.keys()],
  }
}

const isSame = (a: OutgoingVersion, b: OutgoingVersion): boolean =>
  a.status === b.status && a.revision === b.revision && a.dueAt === b.dueAt && a.attempts === b.attempts

/** The digests that are collecting, by what they group. The store has them all; those of late are kept in memory. */
import type { Digest, Notification } from '../model.ts'
import type { DigestSpec } from '../policy/policy.ts'
import type { Random, Store } from '../ports.ts'

export interface OpenDigests {
  /** The digest to join, or a new one which the caller must open in the commit of its first item. */
  find(notification: Notification, spec: DigestSpec, now: number): Promise<{ digest: Digest; opens: boolean }>
  /** It is closed, or was never opened: the next item looks in the store again. */
  forget(digest: Digest): void
}

const cachedMax = 50_000

export function createOpenDigests(options: { readonly store: Store; readonly random: Random }): OpenDigests {
  const known = new Map<string, Digest>()
  const asked = new Map<string, Promise<Digest | undefined>>()

  const keyOf = (digest: Pick<Digest, 'tenant' | 'recipient' | 'channel' | 'category' | 'name'>): string =>
    [digest.tenant, digest.recipient, digest.channel, digest.category, digest.name].join('\n')

  async function stored(
    key: string,
    group: Omit<Digest, 'id' | 'openedAt' | 'closesAt'>,
  ): Promise<Digest | undefined> {
    let asking = asked.get(key)
    if (asking === undefined) {
      asking = options.store.openDigest(group).finally(() => asked.delete(key))
      asked.set(key, asking)
    }
    return asking
  }

  return {
    async find(notification, spec, now) {
      const group = {
        tenant: notification.tenant,
        recipient: notification.to.id,
        channel: notification.channel,
        category: notification.category,
        name: spec.name,
      }
      const key = keyOf(group)
      let digest = known.get(key) ?? (await stored(key, group)) ?? known.get(key)
      const opens = digest === undefined
      if (digest === undefined)
        digest = { ...group, id: options.random.id(now), openedAt: now, closesAt: now + spec.windowMs }
      if (known.size >= cachedMax) known.clear()
      known.set(key, digest)
      return { digest, opens }
    },
    forget(digest) {
      const key = keyOf(digest)
      if (known.get(key)?.id === digest.id) known.delete(key)
    },
  }
}

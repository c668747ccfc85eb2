/** The digests that are collecting, by what they group. The store has them all; those of late are kept in memory. */
import type { Digest, Notification } from '../../model.ts'
import type { DigestSpec } from '../../policy/policy.ts'
import type { Random, Store } from '../../ports.ts'

export interface OpenDigests {
  /**
   * The digest to join, which then closes at `closesBy` or earlier. `opens` where it is not known to be on record: then
   * everybody opens it in the commit of his items, so that none of them depends on another's commit. Waits while it is
   * being closed.
   */
  find(
    notification: Notification,
    spec: DigestSpec,
    now: number,
    closesBy: number,
  ): Promise<{ digest: Digest; opens: boolean }>
  /** It is on record: from here on it is joined. */
  opened(digest: Digest): void
  /** It is closed, or was never opened: the next item looks in the store again. */
  forget(digest: Digest): void
  /** Lets nobody join until the returned function is called: it is being closed. */
  hold(digest: Digest): () => void
}

const cachedMax = 50_000

const onRecord = (digest: Digest | undefined) => digest && { digest, opens: false }

export function createOpenDigests(options: { readonly store: Store; readonly random: Random }): OpenDigests {
  const known = new Map<string, { readonly digest: Digest; readonly opens: boolean }>()
  /** Of those that are being closed; it resolves when they are. */
  const closing = new Map<string, Promise<void>>()
  const asked = new Map<string, Promise<Digest | undefined>>()

  const keyOf = (digest: Pick<Digest, 'tenant' | 'recipient' | 'channel' | 'category' | 'name'>): string =>
    [digest.tenant, digest.recipient, digest.channel, digest.category, digest.name].join('\n')

  async function stored(
    key: string,
    group: Omit<Digest, 'id' | 'openedAt' | 'closesAt'>,
  ): Promise<Digest | undefined> {
    let reservationRequest = asked.get(key)
    if (reservationRequest === undefined) {
      reservationRequest = options.store.openDigest(group).finally(() => asked.delete(key))
      asked.set(key, reservationRequest)
    }
    return reservationRequest
  }

  function forget(digest: Digest): void {
    const key = keyOf(digest)
    if (known.get(key)?.digest.id === digest.id) known.delete(key)
  }

  return {
    async find(notification, spec, now, closesBy) {
      const group = {
        tenant: notification.tenant,
        recipient: notification.to.id,
        channel: notification.channel,
        category: notification.category,
        name: spec.name,
      }
      const key = keyOf(group)
      while (closing.has(key)) await closing.get(key)
      const found = known.get(key) ?? onRecord(await stored(key, group)) ?? known.get(key)
      const opens = found?.opens ?? true
      let digest = found?.digest
      digest ??= { ...group, id: options.random.id(now), openedAt: now, closesAt: now + spec.windowMs }
      if (closesBy < digest.closesAt) digest = { ...digest, closesAt: closesBy }
      if (known.size >= cachedMax) known.clear()
      known.set(key, { digest, opens })
      return { digest, opens }
    },
    opened({ id, ...group }) {
      const key = keyOf(group)
      const found = known.get(key)
      if (found?.digest.id === id) known.set(key, { digest: found.digest, opens: false })
    },
    forget,
    hold(digest) {
      const key = keyOf(digest)
      const { promise, resolve } = Promise.withResolvers<void>()
      closing.set(key, promise)
      forget(digest)
      return () => {
        // Who looked for it just before has seen it as it was.
        forget(digest)
        closing.delete(key)
        resolve()
      }
    },
  }
}

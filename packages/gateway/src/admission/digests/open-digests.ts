/** A cache of the open digests by recipient, channel, category and name. The store has all of them. */
import type { Digest, Notification } from '../../model.ts'
import type { DigestSpec } from '../../policy/policy.ts'
import type { Random, Store } from '../../ports.ts'

export interface OpenDigests {
  /**
   * Returns the digest to join, which then closes at `closesBy` or earlier. `opens` is true where the digest is not known
   * to be stored: then each commit of items opens it, so that none depends on another commit. Waits while the digest is
   * being closed.
   */
  find(
    notification: Notification,
    spec: DigestSpec,
    now: number,
    closesBy: number,
  ): Promise<{ digest: Digest; opens: boolean }>
  /** Marks a digest as stored: later items join it. */
  opened(digest: Digest): void
  /** Removes a digest that is closed or was never opened: the next item reads the store. */
  forget(digest: Digest): void
  /** Makes joining items wait until the returned function is called, while the digest is being closed. */
  hold(digest: Digest): () => void
}

const cachedMax = 50_000

const onRecord = (digest: Digest | undefined) => digest && { digest, opens: false }

export function createOpenDigests(options: { readonly store: Store; readonly random: Random }): OpenDigests {
  const known = new Map<string, { readonly digest: Digest; readonly opens: boolean }>()
  /** Digests that are being closed; each promise resolves at the end of the closing. */
  const closing = new Map<string, Promise<void>>()
  const reads = new Map<string, Promise<Digest | undefined>>()

  const keyOf = (digest: Pick<Digest, 'tenant' | 'recipient' | 'channel' | 'category' | 'name'>): string =>
    [digest.tenant, digest.recipient, digest.channel, digest.category, digest.name].join('\n')

  async function stored(
    key: string,
    group: Omit<Digest, 'id' | 'openedAt' | 'closesAt'>,
  ): Promise<Digest | undefined> {
    let read = reads.get(key)
    if (read === undefined) {
      read = options.store.openDigest(group).finally(() => reads.delete(key))
      reads.set(key, read)
    }
    return read
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
        // A concurrent `find` may have cached the digest as it was before.
        forget(digest)
        closing.delete(key)
        resolve()
      }
    },
  }
}

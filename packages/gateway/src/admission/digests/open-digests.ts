/** A cache of the open digests by recipient, channel, category and name. The store has all of them. */

import type { Digest, Notification } from '../../model.ts'
import type { Random, Store } from '../../ports.ts'
import type { UndoList } from '../../undo.ts'
import type { JoinedDigest } from '../candidate.ts'

export interface OpenDigests {
  /**
   * Returns the digest to join, which then closes at `closesBy` or earlier. A promise only where the store is asked, or
   * where the digest is being closed: its end is waited for.
   */
  join(item: Notification, name: string, joining: Joining): JoinedDigest | Promise<JoinedDigest>
  /** Marks a digest as stored: later items join it. */
  opened(digest: Digest): void
  /** Removes a digest that is closed or was never opened: the next item reads the store. */
  forget(digest: Digest): void
  /** Removes all digests of a recipient who was erased. */
  forgetRecipient(tenant: string, recipient: string): void
  /** Makes joining items wait until the returned function is called, while the digest is being closed. */
  hold(digest: Digest): () => void
}

interface Joining {
  readonly now: number
  /** The window of a digest that is opened now. */
  readonly windowMs: number
  readonly closesBy: number
  /** Forgets the digest again where it is not on record as it was joined. */
  readonly undo: UndoList
}

type DigestGroup = Omit<Digest, 'id' | 'openedAt' | 'closesAt'>

const cachedMax = 50_000

const onRecord = (digest: Digest | undefined): JoinedDigest | undefined => digest && { digest, opens: false }

export function createOpenDigests(options: { readonly store: Store; readonly random: Random }): OpenDigests {
  const known = new Map<string, JoinedDigest>()
  /** Digests that are being closed; each promise resolves at the end of the closing. */
  const closing = new Map<string, Promise<void>>()
  const reads = new Map<string, Promise<Digest | undefined>>()

  const keyOf = (digest: Pick<Digest, 'tenant' | 'recipient' | 'channel' | 'category' | 'name'>): string =>
    [digest.tenant, digest.recipient, digest.channel, digest.category, digest.name].join('\n')

  async function stored(key: string, group: DigestGroup): Promise<Digest | undefined> {
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

  /**
   * Returns a known digest whose time has not come. Another process may have put one off whose time has come: joined as it
   * was, it would be closed at once, and collect nothing any more.
   */
  function knownBefore(key: string, now: number): JoinedDigest | undefined {
    const found = known.get(key)
    if (found === undefined || found.opens || found.digest.closesAt > now) return found
    known.delete(key)
    return undefined
  }

  /** Joins what was found, or a new digest. In one step with the look into the cache: two items open one digest. */
  function joinFound(found: JoinedDigest | undefined, group: DigestGroup, joining: Joining): JoinedDigest {
    const { now, windowMs, closesBy, undo } = joining
    let joined = found ?? {
      digest: { ...group, id: options.random.id(now), openedAt: now, closesAt: now + windowMs },
      opens: true,
    }
    const isEarlier = closesBy < joined.digest.closesAt
    if (isEarlier) joined = { ...joined, digest: { ...joined.digest, closesAt: closesBy } }
    const { digest, opens } = joined
    if (opens || isEarlier) undo.add(() => forget(digest))
    if (known.size >= cachedMax) known.clear()
    known.set(keyOf(group), joined)
    return joined
  }

  async function findAndJoin(group: DigestGroup, joining: Joining): Promise<JoinedDigest> {
    const key = keyOf(group)
    while (closing.has(key)) await closing.get(key)
    const found = knownBefore(key, joining.now) ?? onRecord(await stored(key, group)) ?? known.get(key)
    return joinFound(found, group, joining)
  }

  return {
    join({ tenant, to, channel, category }, name, joining) {
      const group = { tenant, recipient: to.id, channel, category, name }
      const key = keyOf(group)
      const found = closing.has(key) ? undefined : knownBefore(key, joining.now)
      return found === undefined ? findAndJoin(group, joining) : joinFound(found, group, joining)
    },
    opened({ id, ...group }) {
      const key = keyOf(group)
      const found = known.get(key)
      if (found?.digest.id === id) known.set(key, { digest: found.digest, opens: false })
    },
    forget,
    forgetRecipient(tenant, recipient) {
      for (const [key, { digest }] of known)
        if (digest.tenant === tenant && digest.recipient === recipient) known.delete(key)
    },
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

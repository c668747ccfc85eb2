/** An LRU cache of recipient preferences, bounded in bytes. The store has all of them. */

import { damagedRowOf } from '../errors.ts'
import type { Recipient } from '../model.ts'
import { Segments } from '../policy/cache.ts'
import type { RecipientKey, Store } from '../ports.ts'
import type { Recipients } from '../stages.ts'

export interface RecipientCacheOptions {
  readonly store: Pick<Store, 'recipients' | 'mayHave'>
  /**
   * Memory for records, bytes. A record may have 500 opt-outs and addresses of kilobytes, 100 kB in all.
   *
   * @defaultValue 16 MiB
   */
  readonly bytesMax?: number
}

export interface RecipientCache extends Recipients {
  /** Caches a recipient that was just written. */
  put(profile: Recipient): void
}

/**
 * Reads a recipient for work over many of them: a damaged row counts as a recipient without preferences, so that the
 * other recipients go on. Nothing is sent by this answer: delivery reads the row itself.
 */
export async function findOrNobody(
  recipients: Pick<Recipients, 'find'>,
  tenant: string,
  recipient: string,
): Promise<Recipient | null> {
  try {
    return await recipients.find(tenant, recipient)
  } catch (error) {
    if (damagedRowOf(error) === undefined) throw error
    return null
  }
}

/** Recipients in one question. */
const askedMax = 1_000

/** Size of an entry without its text: 125 B were measured for a recipient without preferences. */
const entryBytes = 140
/** Objects take more than their text as JSON: 1.5 to 2.7 times were measured, from 500 opt-outs to three. */
const bytesPerCharacter = 3

const sizeOf = (profile: Recipient | null, key: string): number =>
  entryBytes + key.length + (profile === null ? 0 : bytesPerCharacter * JSON.stringify(profile).length)

export function createRecipientCache({ store, bytesMax = 2 ** 24 }: RecipientCacheOptions): RecipientCache {
  const known = new Segments<Recipient | null>(bytesMax / 2, sizeOf)
  let changes = 0
  /** The read under way whose answer is cached, by recipient; one who changes meanwhile has none. */
  const reading = new Map<string, object>()
  const keyOf = (tenant: string, recipient: string): string => `${tenant}\n${recipient}`

  // Nearly all recipients have no preferences, and the bloom filter says so without a read.
  const cached = (tenant: string, recipient: string): Recipient | null | undefined =>
    store.mayHave('preferences', tenant, recipient) ? known.get(keyOf(tenant, recipient)) : null

  async function readMissing(
    keys: readonly RecipientKey[],
    found: (Recipient | null | Error | undefined)[],
  ): Promise<readonly (Recipient | null | Error)[]> {
    const missing = [...keys.keys()].filter((index) => found[index] === undefined)
    const names = missing.map((index) => keyOf(keys[index]!.tenant, keys[index]!.recipient))
    const read: Awaited<ReturnType<Store['recipients']>>[number][] = []
    const mine = {}
    for (const name of names) reading.set(name, mine)
    try {
      while (read.length < missing.length) {
        const asked = missing.slice(read.length, read.length + askedMax)
        read.push(...(await store.recipients(asked.map((index) => keys[index]!))))
      }
      for (const [nth, index] of missing.entries()) {
        const { tenant, recipient } = keys[index]!
        // The recipient may have been written during the read, by another process or by an erasure too.
        const meanwhile = cached(tenant, recipient)
        const profile = meanwhile ?? read[nth] ?? null
        found[index] = profile
        const isNewest = meanwhile === undefined && reading.get(names[nth]!) === mine
        if (isNewest && !(profile instanceof Error)) known.set(names[nth]!, profile)
      }
    } finally {
      for (const name of names) if (reading.get(name) === mine) reading.delete(name)
    }
    return found as (Recipient | null | Error)[]
  }

  return {
    cached,
    findAll(keys) {
      const found = keys.map(({ tenant, recipient }) => cached(tenant, recipient))
      if (!found.includes(undefined)) return found as (Recipient | null)[]
      return readMissing(keys, found)
    },
    async find(tenant, recipient) {
      const known = cached(tenant, recipient)
      if (known !== undefined) return known
      const [profile] = await readMissing([{ tenant, recipient }], [undefined])
      if (profile instanceof Error) throw profile
      return profile!
    },
    get changes() {
      return changes
    },
    forget(tenant, recipient) {
      changes += 1
      known.delete(keyOf(tenant, recipient))
      reading.delete(keyOf(tenant, recipient))
    },
    put(profile) {
      changes += 1
      known.set(keyOf(profile.tenant, profile.id), profile)
    },
  }
}

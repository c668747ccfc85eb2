/** Questions about open digests. */
import type { Digest } from '../../model.ts'
import type { Store } from '../../ports.ts'
import type { Db } from './connection.ts'

export interface DigestRow extends Omit<Digest, 'openedAt' | 'closesAt' | 'heldAs'> {
  readonly opened_at: number
  readonly closes_at: number
  readonly held_as: Digest['heldAs'] | null
}

export const columns = 'id, tenant, recipient, channel, category, name, opened_at, closes_at, held_as'

export const digestOf = ({ opened_at, closes_at, held_as, ...digest }: DigestRow): Digest => ({
  ...digest,
  openedAt: opened_at,
  closesAt: closes_at,
  ...(held_as == null ? {} : { heldAs: held_as }),
})

export function createDigestReads(
  db: Db,
): Pick<Store, 'openDigest' | 'digest' | 'dueDigests' | 'nextDigestAt'> {
  const read = async (rest: string, values: readonly unknown[]): Promise<readonly Digest[]> =>
    (await db.query<DigestRow>(`SELECT ${columns} FROM digest ${rest}`, values)).map(digestOf)
  return {
    openDigest: async ({ tenant, recipient, channel, category, name }) =>
      (
        await read('WHERE (tenant, recipient, channel, category, name) = ($1, $2, $3, $4, $5)', [
          tenant,
          recipient,
          channel,
          category,
          name,
        ])
      )[0],
    digest: async (id) => (await read('WHERE id = $1', [id]))[0],
    dueDigests: (until, limit) =>
      read('WHERE closes_at <= $1 ORDER BY closes_at, id LIMIT $2', [until, limit]),
    nextDigestAt: async () => (await read('ORDER BY closes_at LIMIT 1', []))[0]?.closesAt,
  }
}

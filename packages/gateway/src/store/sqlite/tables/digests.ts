/**
 * Open digests. A closed digest leaves no row: its items carry its id, and the notification that it became has the
 * same one.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Digest } from '../../../model.ts'
import type { DigestWrite } from '../../../ports.ts'
import { checksum, checksumOf, isSound, type Readable, readable } from '../codec/checksum.ts'

export interface Digests {
  /** Applies a write; false where the digest has changed since the write was computed. */
  write(write: DigestWrite): boolean
  /** True if it collects as many items as the write leaves in it; called after the rest of its change is written. */
  holds(write: DigestWrite): boolean
  find(digest: Pick<Digest, 'tenant' | 'recipient' | 'channel' | 'category' | 'name'>): Digest | undefined
  byId(id: string): Digest | undefined
  due(until: number, limit: number): Readable<Digest>
  earliest(): number | undefined
  /**
   * Forgets those of a recipient who is erased. One that an item joined meanwhile stays, since nothing else would bring that
   * item to an end; it has the address no more as which it is held.
   */
  forget(tenant: string, recipient: string): void
}

interface DigestRow extends Omit<Digest, 'heldAs'> {
  /** JSON. */
  readonly heldAs: string | null
}

interface Stored extends DigestRow {
  readonly sum: number
}

const columns = `id, tenant, recipient, channel, category, name, opened_at AS "openedAt", closes_at AS "closesAt",
  held_as AS "heldAs", sum`

export function prepareDigests(db: DatabaseSync): Digests {
  const insert = db.prepare(
    `INSERT INTO digests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
  )
  const postpone = db.prepare('UPDATE digests SET closes_at = ?, held_as = ?, sum = ? WHERE id = ?')
  const remove = db.prepare('DELETE FROM digests WHERE id = ?')
  // Partial index `collecting`: a close reads one entry, a postponement the entries that stay.
  const collected = db.prepare('SELECT count(*) AS n FROM states WHERE status = 2 AND digest_id = ?')
  const became = db.prepare('SELECT 1 FROM notifications WHERE id = ?')
  const find = db.prepare(`SELECT ${columns} FROM digests
    WHERE tenant = ? AND recipient = ? AND channel = ? AND category = ? AND name = ?`)
  const byId = db.prepare(`SELECT ${columns} FROM digests WHERE id = ?`)
  const due = db.prepare(
    `SELECT ${columns} FROM digests WHERE closes_at <= ? ORDER BY closes_at, rowid LIMIT ?`,
  )
  const removeEmpty = db.prepare(`DELETE FROM digests WHERE tenant = ? AND recipient = ?
    AND NOT EXISTS (SELECT 1 FROM states WHERE status = 2 AND digest_id = digests.id)`)
  const held = db.prepare(
    `SELECT ${columns} FROM digests WHERE tenant = ? AND recipient = ? AND held_as IS NOT NULL`,
  )
  const first = db.prepare('SELECT min(closes_at) AS at FROM digests')

  const put = (row: DigestRow): boolean =>
    postpone.run(row.closesAt, row.heldAs, checksumOf(textOf(row)), row.id).changes === 1

  function join(d: Digest): boolean {
    const row = byId.get(d.id) as Stored | undefined
    // A damaged one gets a new checksum here.
    if (row !== undefined && row.closesAt > d.closesAt)
      put({ ...d, heldAs: isWhole(row) ? row.heldAs : null })
    return row !== undefined
  }

  /** Opens a digest that a concurrent change may have opened already; a closed digest is not opened again. */
  function open(d: Digest): boolean {
    if (join(d)) return true
    if (became.get(d.id) !== undefined) return false
    const { id, tenant, recipient, channel, category, name, openedAt, closesAt: at } = d
    const row = rowOf(d)
    const sum = checksumOf(textOf(row))
    return (
      insert.run(id, tenant, recipient, channel, category, name, openedAt, at, sum, row.heldAs).changes === 1
    )
  }

  function mend(row: Stored, until: number): void {
    if (!isWhole(row)) put({ ...row, closesAt: until, heldAs: null })
  }

  return {
    write({ kind, digest: d }) {
      switch (kind) {
        case 'join':
          return join(d)
        case 'open':
          return open(d)
        case 'postpone':
          return put(rowOf(d))
        case 'close':
          return remove.run(d.id).changes === 1
      }
    },
    holds: (write) => !('left' in write) || collected.get(write.digest.id)?.n === write.left,
    find(of) {
      const row = find.get(of.tenant, of.recipient, of.channel, of.category, of.name)
      return row === undefined ? undefined : readDigest(row)
    },
    byId(id) {
      const row = byId.get(id)
      return row === undefined ? undefined : readDigest(row)
    },
    due(until, limit) {
      const rows = due.all(until, limit)
      const read = readable(rows, readDigest)
      // The items of a damaged digest must come to an end: the row is taken as it reads, and is due.
      if (read.damaged.length > 0) for (const row of rows) mend(row as unknown as Stored, until)
      return read
    },
    forget(tenant, recipient) {
      removeEmpty.run(tenant, recipient)
      for (const row of held.all(tenant, recipient) as unknown as Stored[])
        if (isWhole(row)) put({ ...row, heldAs: null })
    },
    earliest: () => (first.get()?.at as number | null) ?? undefined,
  }
}

const rowOf = ({ heldAs, ...digest }: Digest): DigestRow => ({
  ...digest,
  heldAs: heldAs === undefined ? null : JSON.stringify(heldAs),
})

function textOf(row: DigestRow): string {
  const { id, tenant, recipient, channel, category, name, openedAt, closesAt, heldAs } = row
  const text = `${id} ${tenant} ${recipient} ${channel} ${category} ${name} ${openedAt} ${closesAt}`
  return heldAs === null ? text : `${text} ${heldAs}`
}

const isWhole = (row: Stored): boolean => isSound(textOf(row), row.sum)

function readDigest(stored: Record<string, unknown>): Digest {
  const { sum, ...row } = stored as unknown as Stored
  checksum(textOf(row), sum, `digest ${row.id}`)
  const { heldAs, ...digest } = row
  return heldAs === null ? digest : { ...digest, heldAs: JSON.parse(heldAs) as NonNullable<Digest['heldAs']> }
}

/**
 * Open digests. A closed digest leaves no row: its items carry its id, and the notification that it became has the
 * same one.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Digest } from '../../../model.ts'
import type { DigestWrite } from '../../../ports.ts'
import { checksum, checksumOf, type Readable, readable } from '../codec/checksum.ts'

export interface Digests {
  /** Applies a write; false where the digest has changed since the write was computed. */
  write(write: DigestWrite): boolean
  /** True if it collects as many items as the write leaves in it; called after the rest of its change is written. */
  holds(write: DigestWrite): boolean
  find(digest: Pick<Digest, 'tenant' | 'recipient' | 'channel' | 'category' | 'name'>): Digest | undefined
  byId(id: string): Digest | undefined
  due(until: number, limit: number): Readable<Digest>
  earliest(): number | undefined
}

const columns =
  'id, tenant, recipient, channel, category, name, opened_at AS "openedAt", closes_at AS "closesAt", sum'

export function prepareDigests(db: DatabaseSync): Digests {
  const insert = db.prepare(`INSERT INTO digests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`)
  const postpone = db.prepare('UPDATE digests SET closes_at = ?, sum = ? WHERE id = ?')
  const remove = db.prepare('DELETE FROM digests WHERE id = ?')
  const closesAt = db.prepare('SELECT closes_at AS at FROM digests WHERE id = ?')
  // Partial index `collecting`: a close reads one entry, a postponement the entries that stay.
  const collected = db.prepare('SELECT count(*) AS n FROM states WHERE status = 2 AND digest_id = ?')
  const became = db.prepare('SELECT 1 FROM notifications WHERE id = ?')
  const find = db.prepare(`SELECT ${columns} FROM digests
    WHERE tenant = ? AND recipient = ? AND channel = ? AND category = ? AND name = ?`)
  const byId = db.prepare(`SELECT ${columns} FROM digests WHERE id = ?`)
  const due = db.prepare(
    `SELECT ${columns} FROM digests WHERE closes_at <= ? ORDER BY closes_at, rowid LIMIT ?`,
  )
  const first = db.prepare('SELECT min(closes_at) AS at FROM digests')

  function join(d: Digest): boolean {
    const row = closesAt.get(d.id)
    if (row !== undefined && (row.at as number) > d.closesAt)
      postpone.run(d.closesAt, checksumOf(textOf(d)), d.id)
    return row !== undefined
  }

  /** Opens a digest that a concurrent change may have opened already; a closed digest is not opened again. */
  function open(d: Digest): boolean {
    if (join(d)) return true
    if (became.get(d.id) !== undefined) return false
    const { id, tenant, recipient, channel, category, name, openedAt, closesAt: at } = d
    const row = [id, tenant, recipient, channel, category, name, openedAt, at, checksumOf(textOf(d))]
    return insert.run(...row).changes === 1
  }

  function mend({ sum, ...row }: Record<string, unknown>, until: number): void {
    const digest = row as unknown as Digest
    if (checksumOf(textOf(digest)) !== sum)
      postpone.run(until, checksumOf(textOf({ ...digest, closesAt: until })), digest.id)
  }

  return {
    write({ kind, digest: d }) {
      switch (kind) {
        case 'join':
          return join(d)
        case 'open':
          return open(d)
        case 'postpone':
          return postpone.run(d.closesAt, checksumOf(textOf(d)), d.id).changes === 1
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
      if (read.damaged.length > 0) for (const row of rows) mend(row, until)
      return read
    },
    earliest: () => (first.get()?.at as number | null) ?? undefined,
  }
}

function textOf(d: Digest): string {
  return `${d.id} ${d.tenant} ${d.recipient} ${d.channel} ${d.category} ${d.name} ${d.openedAt} ${d.closesAt}`
}

function readDigest(row: Record<string, unknown>): Digest {
  const { sum, ...rest } = row
  const digest = rest as unknown as Digest
  checksum(textOf(digest), sum, `digest ${digest.id}`)
  return digest
}

/**
 * Open digests. One that is closed leaves no row: its items carry its id, and the notification that it became has
 * the same one.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Channel, Digest } from '../../../model.ts'
import type { DigestWrite, Store } from '../../../ports.ts'

export interface Digests extends Pick<Store, 'openDigest' | 'dueDigests'> {
  /** False where the digest is not as the write believes. */
  write(write: DigestWrite): boolean
  earliest(): number | undefined
}

const columns =
  'id, tenant, recipient, channel, category, name, opened_at AS "openedAt", closes_at AS "closesAt"'

export function prepareDigests(db: DatabaseSync): Digests {
  const insert = db.prepare('INSERT INTO digests VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING')
  const postpone = db.prepare('UPDATE digests SET closes_at = ? WHERE id = ?')
  const remove = db.prepare('DELETE FROM digests WHERE id = ?')
  const exists = db.prepare('SELECT 1 FROM digests WHERE id = ?')
  const find = db.prepare(`SELECT ${columns} FROM digests
    WHERE tenant = ? AND recipient = ? AND channel = ? AND category = ? AND name = ?`)
  const due = db.prepare(
    `SELECT ${columns} FROM digests WHERE closes_at <= ? ORDER BY closes_at, rowid LIMIT ?`,
  )
  const first = db.prepare('SELECT min(closes_at) AS at FROM digests')

  return {
    write({ kind, digest: d }) {
      switch (kind) {
        case 'join':
          return exists.get(d.id) !== undefined
        case 'open':
          return (
            insert.run(d.id, d.tenant, d.recipient, d.channel, d.category, d.name, d.openedAt, d.closesAt)
              .changes === 1
          )
        case 'postpone':
          return postpone.run(d.closesAt, d.id).changes === 1
        case 'close':
          return remove.run(d.id).changes === 1
      }
    },
    async openDigest(of) {
      const row = find.get(of.tenant, of.recipient, of.channel, of.category, of.name)
      return row === undefined ? undefined : readDigest(row)
    },
    async dueDigests(until, limit) {
      return due.all(until, limit).map(readDigest)
    },
    earliest: () => (first.get()?.at as number | null) ?? undefined,
  }
}

function readDigest(row: Record<string, unknown>): Digest {
  return { ...(row as unknown as Digest), channel: row.channel as Channel }
}

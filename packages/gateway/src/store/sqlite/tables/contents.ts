/**
 * Shared contents and their reference counts. The counts of a group of changes are added up and written once, inside
 * the group's transaction; a content without references is deleted with them.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Payload, SharedContent } from '../../../model.ts'
import type { WaitingContent } from '../../../ports.ts'
import type { ShortContent } from '../codec/change-log.ts'
import { checksumOf, damageIn } from '../codec/checksum.ts'
import { deletingSecurely } from '../secure-delete.ts'
import { inOrder, keptOf, type Parts, readValue, valueColumns, valueJoin } from './parts.ts'

export interface Contents {
  /** Writes a content; false where the id is taken. */
  write(content: ShortContent): boolean
  /** Adds to a content's references, and to the references by unfinished notifications. */
  count(id: string, refs: number, waiting: number): void
  /** Writes the counts added up since the last flush. */
  flush(): void
  /** Discards the counts: they are written, or the transaction did not happen. */
  forget(): void
  waiting(): readonly WaitingContent[]
  /** @throws damage where a content is counted and is missing */
  verify(): void
}

/** Prepares the query for one content, which may be megabytes: it runs beside the writer. */
export function prepareContentReads(db: DatabaseSync) {
  const select =
    db.prepare(`SELECT ${valueColumns('c')}, u.bytes FROM contents c CROSS JOIN content_uses u USING (id)
    ${valueJoin('c')} WHERE c.id = ? AND c.tenant = ? ${inOrder}`)
  return {
    content(tenant: string, id: string): SharedContent | undefined {
      const rows = select.all(id, tenant)
      const [row] = rows
      if (row === undefined) return undefined
      const value = readValue(rows, `content ${id}`)
      const text = 'bytes' in value ? value.bytes.toString() : value.text
      return { id, tenant, bytes: row.bytes as number, ...(JSON.parse(text) as Payload) }
    },
  }
}

export function prepareContents(db: DatabaseSync, parts: Pick<Parts, 'doom'>): Contents {
  // The bytes are a text already: through a string each of them is converted twice, 4 ms a mebibyte.
  const insert = db.prepare(
    'INSERT INTO contents VALUES (?, ?, CAST(? AS TEXT), ?, ?) ON CONFLICT DO NOTHING',
  )
  const insertUses = db.prepare('INSERT INTO content_uses VALUES (?, ?, ?, 0, 0)')
  const update = db.prepare(
    'UPDATE content_uses SET refs = refs + ?, waiting = waiting + ? WHERE id = ? RETURNING refs',
  )
  const remove = db.prepare('DELETE FROM contents WHERE id = ? RETURNING parts')
  const removeUses = db.prepare('DELETE FROM content_uses WHERE id = ?')
  const waiting = db.prepare(
    'SELECT id, tenant, bytes, waiting FROM content_uses WHERE waiting > 0 ORDER BY tenant, id',
  )
  const missing = db.prepare(
    'SELECT id FROM content_uses u WHERE NOT EXISTS (SELECT 1 FROM contents c WHERE c.id = u.id) LIMIT 1',
  )
  const counted = new Map<string, { refs: number; waiting: number }>()

  function count(id: string, refs: number, waits: number): void {
    const delta = counted.get(id)
    if (delta === undefined) {
      counted.set(id, { refs, waiting: waits })
      return
    }
    delta.refs += refs
    delta.waiting += waits
  }

  return {
    count,
    write({ id, tenant, bytes, body }) {
      const { kept, key } = keptOf(body)
      if (insert.run(id, tenant, kept, checksumOf(kept), key).changes === 0) return false
      insertUses.run(id, tenant, bytes)
      // Makes the flush examine the content, which is deleted where nothing of its change refers to it.
      count(id, 0, 0)
      return true
    },
    flush() {
      for (const [id, delta] of counted) {
        const row = update.get(delta.refs, delta.waiting, id)
        if (row !== undefined && (row.refs as number) <= 0)
          deletingSecurely(db, () => {
            const key = remove.get(id)?.parts as number | null | undefined
            removeUses.run(id)
            if (typeof key === 'number') parts.doom(key)
          })
      }
    },
    forget: () => counted.clear(),
    waiting: () => waiting.all().map((row) => ({ ...(row as unknown as WaitingContent) })),
    verify() {
      const row = missing.get()
      if (row !== undefined) throw damageIn(`content ${row.id}, which is not there`)
    },
  }
}

/**
 * The recipient index: finds a recipient's notifications by the hash of tenant and recipient, and assigns row
 * numbers. SQLite does not assign them, so that no number is ever used twice: the index may still name a deleted row.
 */
import type { DatabaseSync } from 'node:sqlite'
import { damageIn } from '../codec/checksum.ts'
import type { HashKey } from './hash.ts'
import { recipientHash } from './hash.ts'
import type { WriteBehindIndex } from './write-behind-index.ts'
import { createWriteBehindIndex } from './write-behind-index.ts'

export interface RecipientIndex extends Pick<WriteBehindIndex, 'flush' | 'finish' | 'notedHashes'> {
  hash(tenant: string, recipient: string): number
  nextSeq(): number
  add(tenant: string, recipient: string, seq: number): void
  remove(tenant: string, recipient: string, seq: number): void
  /** Moves a stored row to the recipient's pseudonym; called inside a transaction. */
  rename(tenant: string, recipient: string, renamed: string, seq: number): void
  /** @throws damage where a row is missing. Reads all rows. */
  verify(): void
  /** Rows that may be the recipient's and are not flushed to the table yet. */
  notedRows(tenant: string, recipient: string): readonly number[]
  /** The two parameters of `rowsOf`; `undefined` where no row can be the recipient's. */
  lookup(tenant: string, recipient: string): readonly [hash: number, noted: string] | undefined
}

/** A table of the seqs that may be a recipient's; the rows themselves tell whose they are. */
export const rowsOf = `(SELECT seq FROM recipient_rows WHERE hash = ?
  UNION SELECT value FROM json_each(?))`

export function createRecipientIndex(db: DatabaseSync, key: HashKey): RecipientIndex {
  const index = createWriteBehindIndex({ db, table: 'recipient_rows' })
  const last = Number(db.prepare('SELECT max(seq) AS seq FROM notifications').get()?.seq ?? 0)
  let next = Math.max(last + 1, index.from)
  const hash = (tenant: string, recipient: string): number => recipientHash(key, tenant, recipient)

  const any = db.prepare('SELECT 1 FROM recipient_rows WHERE hash = ? LIMIT 1')
  const unfolded = db.prepare('SELECT seq, tenant, recipient FROM notifications WHERE seq >= ? ORDER BY seq')
  for (const { seq, tenant, recipient } of unfolded.iterate(index.from)) {
    index.add(hash(tenant as string, recipient as string), seq as number)
  }

  const flushed = db.prepare('SELECT seq, tenant, recipient FROM notifications WHERE seq < ? ORDER BY seq')

  return {
    hash,
    notedHashes: index.notedHashes,
    verify() {
      for (const { seq, tenant, recipient } of flushed.iterate(index.from)) {
        if (!index.has(hash(tenant as string, recipient as string), seq as number)) {
          throw damageIn(`the index of recipients, row ${seq}`)
        }
      }
    },
    flush: index.flush,
    finish: index.finish,
    nextSeq: () => next++,
    add: (tenant, recipient, seq) => index.add(hash(tenant, recipient), seq),
    remove: (tenant, recipient, seq) => index.remove(hash(tenant, recipient), seq),
    rename(tenant, recipient, renamed, seq) {
      index.remove(hash(tenant, recipient), seq)
      index.insert(hash(tenant, renamed), seq)
    },
    notedRows: (tenant, recipient) => JSON.parse(index.noted(hash(tenant, recipient))) as readonly number[],
    lookup(tenant, recipient) {
      const hashed = hash(tenant, recipient)
      const noted = index.noted(hashed)
      // Most lookups are for new recipients: 1 µs for them instead of a join.
      return noted === '[]' && any.get(hashed) === undefined ? undefined : [hashed, noted]
    },
  }
}

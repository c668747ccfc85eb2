/**
 * Where a recipient's notifications stand: an index by the hash of tenant and recipient, and the number that the next
 * row gets. Numbers are given here and not by SQLite, so that none is ever used twice: the index may still name a
 * row that is gone.
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
  /** A row that is on record is another's from here on: in a transaction. */
  rename(tenant: string, recipient: string, renamed: string, seq: number): void
  /** @throws damage where a row is missing. Reads all of them. */
  verify(): void
  /** Of a recipient's rows those that no table names yet, and maybe others'. */
  notedRows(tenant: string, recipient: string): readonly number[]
  /** Bound to the two parameters of `rowsOf`; `undefined` where nothing can be the recipient's. */
  lookup(tenant: string, recipient: string): readonly [hash: number, noted: string] | undefined
}

/** A table of the seqs that may be a recipient's; the rows themselves say whose they are. */
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

  const folded = db.prepare('SELECT seq, tenant, recipient FROM notifications WHERE seq < ? ORDER BY seq')

  return {
    hash,
    notedHashes: index.notedHashes,
    verify() {
      for (const { seq, tenant, recipient } of folded.iterate(index.from)) {
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
      // Most people who are asked for are new: 1 µs for them instead of a join.
      return noted === '[]' && any.get(hashed) === undefined ? undefined : [hashed, noted]
    },
  }
}

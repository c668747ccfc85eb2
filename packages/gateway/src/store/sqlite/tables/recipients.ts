/** Recipients: their addresses and preferences, a JSON text each. */
import type { DatabaseSync } from 'node:sqlite'
import type { RecipientKey } from '../../../ports.ts'
import { checksumOf, damageIn, isSound } from '../codec/checksum.ts'
import { deletingSecurely } from '../secure-delete.ts'

export interface Recipients {
  write(tenant: string, id: string, body: string): void
  /** Deletes a recipient; returns the previous JSON. */
  take(tenant: string, id: string): string | undefined
  /**
   * Reads recipients in the order of the keys, as many as a page may have characters and at least one: the rest is asked
   * for again.
   */
  read(keys: readonly RecipientKey[]): readonly RecipientText[]
  /** @throws damage where a recipient is on record under a name that is not its own: nobody would find it. Reads all. */
  verify(): void
}

/** The JSON of a recipient, the damage of its row, or undefined where there is none. */
export type RecipientText = string | { readonly damaged: string } | undefined

/** Characters of recipients in one answer: parsing them takes some 5 ms. A recipient has up to 100,000. */
const lengthMax = 2 ** 18

export function prepareRecipients(db: DatabaseSync): Recipients {
  const upsert = db.prepare('INSERT OR REPLACE INTO recipients (tenant, id, body, sum) VALUES (?, ?, ?, ?)')
  const select = db.prepare('SELECT body, sum FROM recipients WHERE tenant = ? AND id = ?')
  const remove = db.prepare('DELETE FROM recipients WHERE tenant = ? AND id = ? RETURNING body')
  const all = db.prepare('SELECT tenant, id, body, sum FROM recipients')
  return {
    take: (tenant, id) => remove.get(tenant, id)?.body as string | undefined,
    write(tenant, id, body) {
      deletingSecurely(db, () => upsert.run(tenant, id, body, checksumOf(body)))
    },
    read(keys) {
      const found: RecipientText[] = []
      let length = 0
      for (const { tenant, recipient } of keys) {
        if (length >= lengthMax) break
        const row = select.get(tenant, recipient)
        const body = row?.body as string | undefined
        if (body !== undefined && !isSound(body, row!.sum)) found.push({ damaged: `recipient ${recipient}` })
        else found.push(body)
        length += body?.length ?? 0
      }
      return found
    },
    verify() {
      for (const row of all.iterate()) {
        const body = row.body as string
        // One whose text is damaged is told of when it is read.
        if (!isSound(body, row.sum)) continue
        const { tenant, id } = JSON.parse(body) as { readonly tenant: string; readonly id: string }
        if (tenant !== row.tenant || id !== row.id) throw damageIn(`the name of recipient ${id}`)
      }
    },
  }
}

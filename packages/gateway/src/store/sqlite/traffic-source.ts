/**
 * Reads the traffic of a file beside the gateway that writes it: by a connection that cannot write, a short question a
 * page, so that no page keeps the log of the file from being taken over.
 */
import { existsSync } from 'node:fs'
import type { SQLInputValue } from 'node:sqlite'
import { SluiceError } from '../../errors.ts'
import type { Recipient } from '../../model.ts'
import type { TrafficSource } from '../../ports/traffic.ts'
import { checksum, RowDamage } from './codec/checksum.ts'
import { columns, createdAtOf, type Row, readNotification, seqOf } from './codec/rows.ts'
import { connectReader, schemaVersions } from './database.ts'
import { diskFault } from './sqlite-errors.ts'
import { prepareFeedbackReads } from './tables/feedback.ts'

/** Rows of a page: some 10 ms. */
const pageMax = 500
/** Memory for pages of the file, MiB. */
const cacheMib = 8

/**
 * @throws SluiceError INVALID_CONFIG where there is no file, or it is of another version; STORE_UNAVAILABLE where it is
 * damaged
 */
export function openSqliteTraffic(path: string): TrafficSource {
  const refuse = (message: string): SluiceError =>
    new SluiceError('INVALID_CONFIG', `The store file ${path} ${message}`)
  if (!existsSync(path)) throw refuse('does not exist.')
  const faulted = <T>(perform: () => T): T => {
    try {
      return perform()
    } catch (error) {
      throw diskFault(error, path) ?? error
    }
  }
  const db = faulted(() => connectReader(path, cacheMib))
  const { seen, known } = faulted(() => schemaVersions(db))
  if (seen !== known) {
    db.close()
    throw refuse(
      `is of another version (schema ${seen}; this one has ${known}). Start a gateway of this version on it once.`,
    )
  }
  const select =
    db.prepare(`SELECT ${columns} FROM notifications n INDEXED BY by_tenant CROSS JOIN states s USING (seq)
    WHERE n.tenant = ? AND (n.created_at, n.seq) > (?, ?) AND n.created_at < ? ORDER BY n.created_at, n.seq LIMIT ?`)
  select.setReturnArrays(true)
  const selectRecipient = db.prepare('SELECT body, sum FROM recipients WHERE tenant = ? AND id = ?')
  const feedbackReads = prepareFeedbackReads(db)
  const selectTenants = db.prepare('SELECT DISTINCT tenant FROM tallies ORDER BY tenant')

  /** Reads one row; undefined where it is damaged. */
  function readable<T>(reader: () => T): T | undefined {
    try {
      return reader()
    } catch (error) {
      if (error instanceof RowDamage || error instanceof SyntaxError) return undefined
      throw error
    }
  }

  return {
    tenants: async () => faulted(() => selectTenants.all().map(({ tenant }) => String(tenant))),
    async page({ tenant, from, to, cursor }) {
      // Keys are above -1: the first page begins with the first row of its instant.
      const after: readonly SQLInputValue[] = cursor?.split(' ').map(Number) ?? [from, -1]
      const rows = faulted(() => select.all(tenant, ...after, to, pageMax)) as unknown as Row[]
      const last = rows.at(-1)
      return {
        items: rows.flatMap((row) => readable(() => readNotification(row)) ?? []),
        nextCursor:
          last === undefined || rows.length < pageMax ? null : `${createdAtOf(last)} ${seqOf(last)}`,
      }
    },
    recipients: async (keys) =>
      keys.map(({ tenant, recipient }) => {
        const row = faulted(() => selectRecipient.get(tenant, recipient))
        if (row === undefined) return undefined
        return readable(() => {
          checksum(row.body as string, row.sum, `recipient ${recipient}`)
          return JSON.parse(row.body as string) as Recipient
        })
      }),
    feedback: async (tenant, ids) => faulted(() => feedbackReads.feedbackOf(tenant, ids).found),
    close: async () => db.close(),
  }
}

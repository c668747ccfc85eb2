/**
 * The number of notifications by status, as a small table that is updated with every commit: the deltas of a group
 * are added up here and written once, inside the group's transaction.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Tally } from '../../../ports.ts'
import { statusOf } from '../../status-codes.ts'

interface Delta {
  readonly status: number
  readonly platform: 0 | 1
  count: number
  bytes: number
}

export interface Tallies {
  count(tenant: string, status: number, isApart: boolean, by: number, bytes: number): void
  /** Writes the deltas since the last write. */
  write(): void
  /** Discards the deltas: they are written, or the transaction did not happen. */
  forget(): void
  read(): readonly Tally[]
}

export function prepareTallies(db: DatabaseSync): Tallies {
  const upsert =
    db.prepare(`INSERT INTO tallies (tenant, status, platform, count, bytes) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = count + excluded.count, bytes = bytes + excluded.bytes`)
  const select = db.prepare('SELECT tenant, status, platform, count, bytes FROM tallies WHERE count <> 0')
  const deltas = new Map<string, Map<number, Delta>>()

  return {
    count(tenant, status, isApart, by, bytes) {
      const platform = isApart ? 1 : 0
      let ofTenant = deltas.get(tenant)
      if (ofTenant === undefined) {
        ofTenant = new Map()
        deltas.set(tenant, ofTenant)
      }
      const delta = ofTenant.get(status * 2 + platform)
      if (delta === undefined) ofTenant.set(status * 2 + platform, { status, platform, count: by, bytes })
      else {
        delta.count += by
        delta.bytes += bytes
      }
    },
    write() {
      for (const [tenant, ofTenant] of deltas) {
        for (const { status, platform, count, bytes } of ofTenant.values()) {
          if (count !== 0 || bytes !== 0) upsert.run(tenant, status, platform, count, bytes)
        }
      }
    },
    forget() {
      deltas.clear()
    },
    read() {
      return select.all().map((row) => {
        const status = statusOf(row.status as number)
        return {
          tenant: row.tenant as string,
          status,
          throttled: row.platform === 1 && status === 'scheduled',
          ...(row.platform === 1 && status === 'dead' ? { unserved: true } : {}),
          count: row.count as number,
          bytes: row.bytes as number,
        }
      })
    },
  }
}

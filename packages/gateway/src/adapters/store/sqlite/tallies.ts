/**
 * How many notifications are in each state, as a small table that moves with every commit: the deltas of a group
 * are added up here and written once, inside the group's transaction.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Notification, Status } from '../../../model.ts'
import type { Change, Tally } from '../../../ports.ts'
import { isPlatformDelayed, statusCodes, statusOf } from './codes.ts'

interface Delta {
  readonly tenant: string
  readonly status: Status
  readonly platform: 0 | 1
  count: number
}

export interface Tallies {
  add(change: Change): void
  count(tenant: string, status: Status, platformDelayed: boolean, by: number): void
  /** Writes what was added since the last time. */
  write(): void
  /** Forgets what was added: the transaction did not happen. */
  forget(): void
  read(): readonly Tally[]
}

export function prepareTallies(db: DatabaseSync): Tallies {
  const upsert = db.prepare(`INSERT INTO tallies (tenant, status, platform, count) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET count = count + excluded.count`)
  const select = db.prepare('SELECT tenant, status, platform, count FROM tallies WHERE count <> 0')
  const deltas = new Map<string, Map<number, Delta>>()

  const count: Tallies['count'] = (tenant, status, platformDelayed, by) => {
    const platform = platformDelayed ? 1 : 0
    let ofTenant = deltas.get(tenant)
    if (ofTenant === undefined) {
      ofTenant = new Map()
      deltas.set(tenant, ofTenant)
    }
    const key = statusCodes[status] * 2 + platform
    const delta = ofTenant.get(key)
    if (delta === undefined) ofTenant.set(key, { tenant, status, platform, count: by })
    else delta.count += by
  }

  const countOne = (notification: Notification, by: number): void => {
    const { tenant, status } = notification
    count(tenant, status, status === 'scheduled' && isPlatformDelayed(notification), by)
  }

  return {
    count,
    add(change) {
      for (const notification of change.accept ?? []) countOne(notification, 1)
      for (const { before, after } of change.moves ?? []) {
        countOne(before, -1)
        countOne(after, 1)
      }
    },
    write() {
      for (const ofTenant of deltas.values()) {
        for (const delta of ofTenant.values()) {
          if (delta.count !== 0)
            upsert.run(delta.tenant, statusCodes[delta.status], delta.platform, delta.count)
        }
      }
      deltas.clear()
    },
    forget() {
      deltas.clear()
    },
    read() {
      return select.all().map((row) => ({
        tenant: row.tenant as string,
        status: statusOf(row.status as number),
        platformDelayed: row.platform === 1,
        count: row.count as number,
      }))
    },
  }
}

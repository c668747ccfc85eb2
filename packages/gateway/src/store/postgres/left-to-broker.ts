/** Notifications that are left to a broker: rows of owner 0 (migrations/0005-claims.sql). */
import { type LeftToBroker, type OutgoingVersion, outgoingVersion } from '../../ports/outgoing.ts'
import { statusCodes } from '../status-codes.ts'
import type { ReadRow, WholeRow } from './codec.ts'
import type { Db } from './connection.ts'
import type { Writer } from './writer.ts'

export interface LeftToBrokerParts {
  readonly db: Db
  readonly writer: Writer
  readonly member: string
  readonly read: ReadRow
}

export function createLeftToBroker({ db, writer, member, read }: LeftToBrokerParts): LeftToBroker {
  return {
    async leave(notifications) {
      const asked = JSON.stringify(notifications.map(outgoingVersion).map(versionRow))
      await writer.task(({ epoch, query }) =>
        query('SELECT leave_to_broker($1, $2, $3)', [member, epoch, asked]),
      )
    },
    take(messages) {
      const asked = JSON.stringify(messages.map((each) => ({ ...versionRow(each), held_by: heldBy(each) })))
      return writer.task(async ({ epoch, query }) => {
        const rows = await query<{ taken: WholeRow }>('SELECT * FROM take_left($1, $2, $3)', [
          member,
          epoch,
          asked,
        ])
        return rows.map(({ taken }) => read(taken))
      })
    },
    free: ({ tenant, priority, dueBy, limit }) =>
      writer.task(async ({ epoch, query }) => {
        const values = [member, epoch, tenant, priority ?? null, dueBy, limit]
        const [row] = await query<{ freed: number }>(
          'SELECT free_left($1, $2, $3, $4, $5, $6) AS freed',
          values,
        )
        return row!.freed
      }),
    async tenants() {
      const rows = await db.query<{ tenant: string }>(tenantsLeft)
      return rows.map(({ tenant }) => tenant)
    },
  }
}

const versionRow = ({ id, status, revision, dueAt, attempts }: OutgoingVersion) => ({
  id,
  status: statusCodes[status],
  rev: revision,
  due_at: dueAt,
  attempts,
})

/** The member that published a message; 0, which holds nothing, where the name is none of a member. */
const heldBy = ({ from }: { readonly from: string }): string => (/^\d{1,19}$/.test(from) ? from : '0')

/** Steps from tenant to tenant: it costs as many steps as there are tenants, however many rows each has. */
const tenantsLeft = `WITH RECURSIVE t AS (
    (SELECT tenant FROM live WHERE owner = 0 ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT l.tenant FROM live l WHERE l.owner = 0 AND l.tenant > t.tenant ORDER BY l.tenant LIMIT 1)
      FROM t WHERE t.tenant IS NOT NULL
  ) SELECT tenant FROM t WHERE tenant IS NOT NULL`

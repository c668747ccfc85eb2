/** Questions about background batches. */
import type { Job } from '../../model.ts'
import type { JobWork, Store } from '../../ports.ts'
import { statusCodes, statusOf } from '../status-codes.ts'
import type { Db } from './connection.ts'
import { isText } from './lists.ts'

/** The tally of what jobs have yet to accept. Those of notifications are 2 × status, + 1 for those counted apart. */
const jobKind = 100
export const isJobKind = (kind: number): boolean => kind === jobKind

export function createJobReads(
  db: Db,
  member: string,
): Pick<Store, 'job' | 'jobWork' | 'runningJobs' | 'jobMembers'> {
  return {
    async job(tenant, id) {
      if (!isText(id)) return undefined
      const [row] = await db.query<{ body: Job }>('SELECT body FROM job WHERE id = $1 AND tenant = $2', [
        id,
        tenant,
      ])
      return row?.body
    },
    async jobWork({ tenant, id }) {
      const [row] = await db.query<{ body: JobWork }>(
        'SELECT k.body FROM job_work k JOIN job j USING (id) WHERE id = $1 AND j.tenant = $2',
        [id, tenant],
      )
      return row?.body
    },
    async runningJobs() {
      const rows = await db.query<{ body: Job }>(
        "SELECT body FROM job WHERE status = 'running' ORDER BY created_at, id",
      )
      return rows.map(({ body }) => body)
    },
    async jobMembers({ tenant, id }) {
      const rows = await db.query<{ id: string; status: number }>(
        `SELECT n.id, CASE WHEN l.begun_at IS NULL OR l.owner + 0 = $4 THEN coalesce(l.status, o.status) ELSE $3 END AS status
          FROM notification n LEFT JOIN live l USING (id) LEFT JOIN outcome o USING (id)
          WHERE n.job = $1 AND n.tenant = $2 ORDER BY n.seq`,
        [id, tenant, statusCodes.sending, member],
      )
      return rows.map((row) => ({ id: row.id, status: statusOf(row.status) }))
    },
  }
}

/**
 * Background batch jobs: the progress of each, and, as long as it runs, its remaining work (job-work.ts), which is
 * written once; moving on rewrites the short row only.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Job } from '../../../model.ts'
import type { ShortJobWrite } from '../codec/change-log.ts'
import {
  checksum,
  checksumOf,
  isSound,
  type Readable,
  RowDamage,
  readable,
  unsoundSumOf,
} from '../codec/checksum.ts'
import { renamedWork } from '../job-work.ts'
import { deletingSecurely } from '../secure-delete.ts'
import type { Contents } from './contents.ts'
import { inOrder, keptOf, type Parts, placeholderOf, readValue, valueColumns, valueJoin } from './parts.ts'

export interface Jobs {
  /** Applies a write; false where the job has changed since the write was computed. */
  write(write: ShortJobWrite): boolean
  find(tenant: string, id: string): Job | undefined
  running(): Readable<Job>
  /** Renames a recipient in jobs' remaining work, removing the recipient's other data, and in refusals. */
  rename(tenant: string, recipient: string, renamed: string): void
  /** Renames a recipient in the refusals of jobs alone. */
  renameRefused(tenant: string, recipient: string, renamed: string): void
  /** Deletes up to `max` ended, older jobs that have no notification left; returns the number. */
  prune(before: number, max: number): number
}

const columns = `j.id, j.tenant, j.module, j.created_at AS "createdAt", j.status, j.total, j.taken, j.refused, j.sum, j.shared, j.bytes,
  (SELECT bytes FROM content_uses u WHERE u.id = j.shared) AS "sharedBytes"`

export function prepareJobs(
  db: DatabaseSync,
  contents: Pick<Contents, 'count'>,
  parts: Pick<Parts, 'doom' | 'rewrite'>,
): Jobs {
  const insert = db.prepare(
    'INSERT INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING',
  )
  const insertWork = db.prepare('INSERT INTO job_work VALUES (?, CAST(? AS TEXT), ?, ?)')
  // An erasure may have renamed a refused recipient meanwhile.
  const update = db.prepare(
    'UPDATE jobs SET status = ?, taken = ?, refused = ?, sum = ? WHERE id = ? AND status = ? AND taken = ? AND refused = ?',
  )
  const removeWork = db.prepare('DELETE FROM job_work WHERE id = ? RETURNING parts')
  const find = db.prepare(`SELECT ${columns} FROM jobs j WHERE id = ? AND tenant = ?`)
  const running = db.prepare(
    `SELECT ${columns} FROM job_work w CROSS JOIN jobs j USING (id) ORDER BY j.created_at, w.rowid`,
  )
  // Each of these reads the jobs of a tenant, which are at most hundreds at a time.
  const refusing = db.prepare(`SELECT ${columns} FROM jobs j WHERE j.tenant = ? AND instr(j.refused, ?) > 0`)
  const updateRefused = db.prepare('UPDATE jobs SET refused = ?, sum = ? WHERE id = ?')
  const working = db.prepare(
    `SELECT w.id FROM job_work w JOIN jobs j USING (id)
     WHERE j.tenant = ? AND (w.parts IS NOT NULL OR instr(w.body, ?) > 0)`,
  )
  const workValue = db.prepare(
    `SELECT ${valueColumns('w')} FROM job_work w ${valueJoin('w')} WHERE w.id = ? ${inOrder}`,
  )
  const updateWork = db.prepare('UPDATE job_work SET body = ?, sum = ?, parts = ? WHERE id = ?')
  const prune = db.prepare(`DELETE FROM jobs WHERE id IN (SELECT id FROM jobs j WHERE created_at < ?
    AND status <> 'running' AND NOT EXISTS (SELECT 1 FROM notifications n WHERE n.job = j.id) LIMIT ?)`)

  /** Renames a recipient in the remaining work of a job. Work in parts is rewritten as a whole. */
  function renameIn(id: string, recipient: string, renamed: string): void {
    const rows = workValue.all(id)
    const key = rows[0]!.parts as number | null
    try {
      const value = readValue(rows, `the work of job ${id}`)
      const after = renamedWork(value, recipient, renamed)
      if (after === undefined) return
      const kept =
        'text' in after ? after.text : placeholderOf({ key: key!, count: parts.rewrite(key!, after.bytes) })
      updateWork.run(kept, checksumOf(kept), key, id)
    } catch (error) {
      if (!(error instanceof RowDamage)) throw error
      updateWork.run('', unsoundSumOf(''), null, id)
      if (key !== null) parts.doom(key)
    }
  }

  function renameRefused(tenant: string, recipient: string, renamed: string): void {
    for (const row of refusing.all(tenant, JSON.stringify(recipient))) {
      if (!isSoundJob(row)) {
        updateRefused.run('[]', unsoundSumOf('[]'), row.id as string)
        continue
      }
      const job = readJob(row)
      const refused = JSON.stringify(
        job.refused.map((each) =>
          each.recipient === recipient ? { ...each, recipient: renamed, detail: 'erased' } : each,
        ),
      )
      updateRefused.run(refused, checksumOf(textOf(job, refused)), job.id)
    }
  }

  return {
    write({ before, after, work }) {
      const { id, tenant, module, createdAt, status, total, taken } = after
      const refused = JSON.stringify(after.refused)
      const sum = checksumOf(textOf(after, refused))
      if (before === undefined) {
        const row = [id, tenant, module, createdAt, status, total, taken, refused, sum] as const
        if (insert.run(...row, after.shared?.id ?? null, after.bytes ?? null).changes === 0) return false
        if (status === 'running') {
          const { kept, key } = keptOf(work!)
          insertWork.run(id, kept, checksumOf(kept), key)
          if (after.shared !== undefined) contents.count(after.shared.id, 1, 1)
        }
        return true
      }
      const believed = [before.status, before.taken, JSON.stringify(before.refused)] as const
      if (update.run(status, taken, refused, sum, id, ...believed).changes === 0) return false
      if (before.status === 'running' && status !== 'running') {
        const key = deletingSecurely(db, () => removeWork.get(id))?.parts as number | null | undefined
        if (typeof key === 'number') parts.doom(key)
        if (after.shared !== undefined) contents.count(after.shared.id, -1, -1)
      }
      return true
    },
    find(tenant, id) {
      const row = find.get(id, tenant)
      return row === undefined ? undefined : readJob(row)
    },
    running: () => readable(running.all(), readJob),
    rename(tenant, recipient, renamed) {
      renameRefused(tenant, recipient, renamed)
      for (const { id } of working.all(tenant, JSON.stringify(recipient)))
        renameIn(id as string, recipient, renamed)
    },
    renameRefused,
    prune: (before, max) => Number(prune.run(before, max).changes),
  }
}

function textOf(job: Job, refused: string): string {
  const { id, tenant, module, createdAt, status, total, taken, shared, bytes } = job
  const common = `${id} ${tenant} ${module} ${createdAt} ${status} ${total} ${taken} ${refused}`
  // Rows from before sizes were kept have none in their checksum.
  return bytes === undefined ? common : `${common} ${bytes} ${shared?.id ?? null}`
}

type JobRow = Record<string, unknown>

/** The job without its refusals, which are JSON only where the row is sound. */
function jobIn({ sum: _, refused, shared, sharedBytes, bytes, ...rest }: JobRow): Job {
  return {
    ...rest,
    refused: [],
    ...(shared === null ? {} : { shared: { id: shared, bytes: sharedBytes ?? 0 } }),
    ...(bytes === null ? {} : { bytes }),
  } as unknown as Job
}

function isSoundJob(row: JobRow): boolean {
  return isSound(textOf(jobIn(row), row.refused as string), row.sum)
}

function readJob(row: JobRow): Job {
  const job = jobIn(row)
  checksum(textOf(job, row.refused as string), row.sum, `job ${job.id}`)
  return { ...job, refused: JSON.parse(row.refused as string) }
}

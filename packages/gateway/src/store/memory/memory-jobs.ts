/** Jobs of the in-memory store: their progress, their remaining work, and their notifications. */
import type { Job } from '../../model.ts'
import type { Conflict, JobWork, JobWrite } from '../../ports.ts'

interface Kept {
  readonly job: Job
  /** The remaining work, as long as the job runs. */
  readonly work?: JobWork
}

export class MemoryJobs {
  readonly #jobs = new Map<string, Kept>()
  readonly #members = new Map<string, Set<string>>()

  conflictsOf(writes: readonly JobWrite[]): Conflict[] {
    return writes.flatMap((write) => {
      const id = write.kind === 'open' ? write.job.id : write.after.id
      const now = this.#jobs.get(id)?.job
      const believed = write.kind === 'open' ? undefined : write.before
      const isAsBelieved =
        now?.status === believed?.status &&
        now?.taken === believed?.taken &&
        now?.renamed === believed?.renamed
      return isAsBelieved ? [] : [{ kind: 'job', key: id }]
    })
  }

  write(write: JobWrite): void {
    const job = write.kind === 'open' ? write.job : write.after
    const work = write.kind === 'open' ? write.work : this.#jobs.get(job.id)?.work
    this.#jobs.set(job.id, job.status === 'running' && work !== undefined ? { job, work } : { job })
  }

  find({ tenant, id }: Pick<Job, 'tenant' | 'id'>): Kept | undefined {
    const kept = this.#jobs.get(id)
    return kept?.job.tenant === tenant ? kept : undefined
  }

  running(): readonly Job[] {
    return [...this.#jobs.values()].map(({ job }) => job).filter(({ status }) => status === 'running')
  }

  /** Renames a recipient in jobs that run, with their work, or in all refusals, and removes the recipient's other data. */
  rename(where: 'running' | 'refused', tenant: string, recipient: string, renamed: string): void {
    for (const [id, { job, work }] of this.#jobs) {
      if (job.tenant !== tenant || (where === 'running' && job.status !== 'running')) continue
      const inWork = where === 'running' ? (work?.recipients ?? []) : []
      const named = [...job.refused.map((each) => each.recipient), ...inWork.map((each) => each.id)]
      if (!named.includes(recipient)) continue
      const refused = job.refused.map((each) =>
        each.recipient === recipient ? { ...each, recipient: renamed, detail: 'erased' } : each,
      )
      const recipients = inWork.map((each) => (each.id === recipient ? { id: renamed } : each))
      const after = work && (where === 'running' ? { ...work, recipients } : work)
      const kept = after === undefined ? {} : { work: after }
      this.#jobs.set(id, { job: { ...job, refused, renamed: (job.renamed ?? 0) + 1 }, ...kept })
    }
  }

  join(job: string, id: string): void {
    const members = this.#members.get(job)
    if (members === undefined) this.#members.set(job, new Set([id]))
    else members.add(id)
  }

  leave(job: string, id: string): void {
    const members = this.#members.get(job)
    members?.delete(id)
    if (members?.size === 0) this.#members.delete(job)
  }

  membersOf(job: string): readonly string[] {
    return [...(this.#members.get(job) ?? [])]
  }

  prune(before: number): number {
    let pruned = 0
    for (const [id, { job }] of this.#jobs) {
      if (job.status === 'running' || job.createdAt >= before || this.#members.has(id)) continue
      this.#jobs.delete(id)
      pruned += 1
    }
    return pruned
  }
}

/**
 * Batches that are too large to be answered at once: opened in one durable commit, worked off in the background
 * (job-runner.ts), and cancelled. From its opening on a job holds places in its tenant's queue for all whom it still
 * has to accept, so that nothing of it can meet a queue that is full.
 */
import type { Gate, Jobs, Ledger } from '../doors.ts'
import { SluiceError } from '../errors.ts'
import type { Job, Notification } from '../model.ts'
import { isFinal } from '../model.ts'
import type { Clock, Random, Store } from '../ports.ts'
import { createJobRunner } from './job-runner.ts'

export interface JobsOptions {
  readonly gate: Pick<Gate, 'admit' | 'cancel'>
  readonly store: Store
  readonly ledger: Pick<Ledger, 'commit' | 'claimRoom' | 'live'>
  readonly clock: Clock
  readonly random: Random
  readonly onTrouble: (what: string, error: unknown) => void
}

export interface BackgroundJobs extends Jobs {
  start(): Promise<void>
  stop(): Promise<void>
}

/** A job moves on between a look at it and the write; more often than this is a defect. */
const triesMax = 8
/** Notifications that are cancelled together. */
const cancelSlice = 25

export function createJobs(options: JobsOptions): BackgroundJobs {
  const { gate, store, ledger, clock, random } = options
  const runner = createJobRunner(options)

  const waits = ({ id, status }: Pick<Notification, 'id' | 'status'>): boolean =>
    !isFinal(status) && ledger.live(id)?.status !== 'sending'

  /** From here on nothing more of it is accepted. */
  async function endRunning(tenant: string, id: string): Promise<Job> {
    for (let tries = 0; tries < triesMax; tries += 1) {
      const job = await store.job(tenant, id)
      if (job === undefined) throw new SluiceError('NOT_FOUND', `There is no job ${id}.`)
      if (job.status === 'cancelled') return job
      if (job.status === 'done' && !(await store.jobMembers(job)).some(waits)) {
        throw new SluiceError('NOT_CANCELLABLE', `All of job ${id} has left or ended.`)
      }
      const after: Job = { ...job, status: 'cancelled' }
      if ((await ledger.commit({ jobs: [{ kind: 'move', before: job, after }] })).applied) return after
    }
    throw new SluiceError('STORE_UNAVAILABLE', `Job ${id} met too many changes at once. Try again.`)
  }

  async function cancelOne(tenant: string, id: string): Promise<void> {
    try {
      await gate.cancel(tenant, id)
    } catch (error) {
      // It has left while the others were cancelled.
      if (!(error instanceof SluiceError) || error.code !== 'NOT_CANCELLABLE') throw error
    }
  }

  return {
    start: runner.start,
    stop: runner.stop,
    running: runner.size,

    async open({ caller, work, refused, answer }) {
      const now = clock.now()
      const pending = work.recipients.length
      const job: Job = {
        id: random.id(now),
        tenant: caller.tenant,
        module: caller.module,
        createdAt: now,
        status: pending === 0 ? 'done' : 'running',
        total: pending + refused.length,
        taken: refused.length,
        refused,
      }
      const urgent = work.message.priority === 'critical'
      const room = { queue: urgent ? 0 : pending, critical: urgent ? pending : 0, waiting: 0 }
      const giveRoomBack = ledger.claimRoom(caller.tenant, room)
      try {
        const kept = answer?.(job)
        const result = await ledger.commit({
          jobs: [{ kind: 'open', job, work }],
          ...(kept === undefined ? {} : { answer: kept }),
        })
        if (!result.applied) {
          throw new SluiceError(
            'IDEMPOTENCY_IN_PROGRESS',
            'A request with this Idempotency-Key was just accepted.',
          )
        }
      } finally {
        giveRoomBack()
      }
      if (job.status === 'running') runner.add(job)
      return job
    },

    async cancel(job) {
      runner.remove(job)
      let ended: Job
      try {
        ended = await endRunning(job.tenant, job.id)
      } catch (error) {
        if (job.status === 'running') runner.add(job)
        throw error
      }
      // Also where it was cancelled before: whoever did may not have come to its end.
      const waiting = (await store.jobMembers(ended)).filter(waits)
      for (let from = 0; from < waiting.length; from += cancelSlice) {
        const slice = waiting.slice(from, from + cancelSlice)
        await Promise.all(slice.map(({ id }) => cancelOne(ended.tenant, id)))
      }
    },
  }
}

/**
 * Batches that are too large to be answered at once: opened in one durable commit, accepted in the background
 * (job-runner.ts), and cancelled. From its opening a job reserves queue capacity of its tenant for all
 * recipients that it still has to accept, so that it never meets a full queue.
 */

import { type Conflicted, conflicted, isAmong, retryOnConflict } from '../conflict.ts'
import { bytesOf, type SharedContent } from '../content.ts'
import { SluiceError } from '../errors.ts'
import { isFinal, type Job, type Notification, pendingBytesOf } from '../model.ts'
import type { Members } from '../ports/fleet.ts'
import type { Clock, JobWork, Random, Store } from '../ports.ts'
import type { Contents, Gate, Jobs, Ledger } from '../stages.ts'
import { generationsOf } from '../state-generation.ts'
import { type UndoList, withUndo } from '../undo.ts'
import { createJobRunner } from './job-runner.ts'

export interface JobsOptions {
  readonly gate: Pick<Gate, 'admit' | 'cancel'>
  readonly store: Store
  readonly ledger: Pick<Ledger, 'commit' | 'takeRoom' | 'live'>
  readonly contents: Pick<Contents, 'find' | 'keep'>
  readonly members: Pick<Members, 'holds'>
  readonly clock: Clock
  readonly random: Random
  readonly onError: (what: string, error: unknown) => void
}

export interface BackgroundJobs extends Jobs {
  start(): Promise<void>
  /** Rereads the jobs: their work has changed on record. */
  reread(): Promise<void>
  /** Completes the cancellations of jobs of which some notifications have been cancelled: their process may have been killed. */
  cancelRest(ended: readonly Notification[]): Promise<void>
  stop(): Promise<void>
}

/** Work above this size is written in a turn of the event loop of its own. */
const sliceBytes = 2 ** 18
/** Notifications that are cancelled together. */
const cancelSlice = 25

export function createJobs(options: JobsOptions): BackgroundJobs {
  const { gate, store, ledger, contents, members, clock, random, onError } = options
  const runner = createJobRunner({ gate, store, ledger, contents, members, clock, onError })

  const waits = ({ id, status }: Pick<Notification, 'id' | 'status'>): boolean =>
    !isFinal(status) && (ledger.live(id)?.status ?? status) !== 'sending'

  /** Ends the job: no further notification of it is accepted. */
  async function endRunning(tenant: string, id: string): Promise<Job> {
    const ended = await retryOnConflict(async () => {
      const job = await store.job(tenant, id)
      if (job === undefined) throw new SluiceError('NOT_FOUND', `There is no job ${id}.`)
      if (job.status === 'cancelled') return job
      if (job.status === 'done' && !(await store.jobMembers(job)).some(waits)) {
        throw new SluiceError('NOT_CANCELLABLE', `All of job ${id} has left or ended.`)
      }
      const after: Job = { ...job, status: 'cancelled' }
      if ((await ledger.commit({ jobs: [{ kind: 'move', before: job, after }] })).applied) return after
      return conflicted
    })
    if (ended !== conflicted) return ended
    throw new SluiceError('STORE_UNAVAILABLE', `Job ${id} met too many changes at once. Try again.`)
  }

  async function cancelOne(tenant: string, id: string): Promise<void> {
    try {
      await gate.cancel(tenant, id)
    } catch (error) {
      // It was sent while the others were cancelled.
      if (!(error instanceof SluiceError) || error.code !== 'NOT_CANCELLABLE') throw error
    }
  }

  async function cancel(job: Job): Promise<void> {
    runner.remove(job)
    let ended: Job
    try {
      ended = await endRunning(job.tenant, job.id)
    } catch (error) {
      if (job.status === 'running') runner.add(job)
      throw error
    }
    // Runs for a job that was cancelled before too: that cancellation may have been interrupted.
    await cancelMembers(ended, job.status === 'cancelled' ? ['cancelled'] : [])
  }

  /** Cancels the notifications of a job that wait, and once more those that have ended so. */
  async function cancelMembers(job: Job, again: readonly Notification['status'][]): Promise<void> {
    const left = (await store.jobMembers(job)).filter((each) => waits(each) || again.includes(each.status))
    for (let from = 0; from < left.length; from += cancelSlice) {
      const slice = left.slice(from, from + cancelSlice)
      await Promise.all(slice.map(({ id }) => cancelOne(job.tenant, id)))
    }
  }

  return {
    start: runner.start,
    reread: runner.reread,
    stop: runner.stop,
    running: runner.size,

    async open({ caller, work: asked, refused, bytes, answer }) {
      const now = clock.now()
      const { work, content } = contentApart(caller.tenant, asked, () => random.id(now))
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
        ...(content === undefined ? {} : { shared: { id: content.id, bytes: content.bytes } }),
        bytes: Math.max(0, (bytes ?? 0) - (content?.bytes ?? 0)),
      }
      const urgent = work.message.priority === 'critical'
      const room = {
        queue: urgent ? 0 : pending,
        critical: urgent ? pending : 0,
        waiting: 0,
        bytes: (content?.bytes ?? 0) + pendingBytesOf(job),
      }
      const openOnce = async (undo: UndoList): Promise<true | Conflicted> => {
        const taking = ledger.takeRoom(caller.tenant, room)
        const taken = taking instanceof Promise ? await taking : taking
        undo.always(taken.giveBack)
        // Other requests have the event loop between measuring large work and writing it.
        if (room.bytes > sliceBytes) await new Promise<void>((resolve) => clock.soon(resolve))
        const kept = answer?.(job)
        const result = await ledger.commit({
          ...(content === undefined ? {} : { contents: [content] }),
          jobs: [{ kind: 'open', job, work }],
          ...(kept === undefined ? {} : { answer: kept }),
          ...generationsOf(caller.tenant, { room: taken.generation }),
        })
        if (result.applied) return true
        if (isAmong(result.conflicts, 'generation', caller.tenant)) return conflicted
        if (kept !== undefined && isAmong(result.conflicts, 'answer', kept.key))
          throw new SluiceError(
            'IDEMPOTENCY_IN_PROGRESS',
            'A request with this Idempotency-Key was just accepted.',
          )
        throw new SluiceError('STORE_UNAVAILABLE', 'The store takes nothing more from this gateway.', {
          retryAfterMs: 1_000,
        })
      }
      if ((await retryOnConflict(() => withUndo(onError, openOnce))) === conflicted)
        throw new SluiceError(
          'STATE_UNAVAILABLE',
          'The room of the tenant was lost again and again. Try again.',
          {
            retryAfterMs: 1_000,
          },
        )
      if (job.status === 'running') runner.add(job)
      if (content !== undefined) contents.keep(content)
      return job
    },

    cancel,
    async cancelRest(ended) {
      const jobs = new Map(
        ended.flatMap(({ job, tenant, status }) => (job && status === 'cancelled' ? [[job, tenant]] : [])),
      )
      for (const [id, tenant] of jobs) {
        const job = await store.job(tenant, id)
        if (job?.status === 'cancelled') await cancelMembers(job, [])
      }
    },
  }
}

/** Stores the shared content once, apart from the work of the job; a job without recipients stores nothing. */
function contentApart(
  tenant: string,
  work: JobWork,
  newId: () => string,
): { readonly work: JobWork; readonly content?: SharedContent } {
  const { content, data, ...message } = work.message
  if (work.recipients.length === 0 || (content === undefined && data === undefined)) return { work }
  const said = { ...(content === undefined ? {} : { content }), ...(data === undefined ? {} : { data }) }
  return {
    work: { ...work, message },
    content: { id: newId(), tenant, bytes: bytesOf(said), ...said },
  }
}

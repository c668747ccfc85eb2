/**
 * Accepts batches in the background, a few recipients at a time. Each module of each tenant has a queue in which its jobs
 * stand in order of arrival; queues take turns (round robin), so that no module's jobs delay those of another. Of several
 * processes one accepts the batches of all, which keeps that order. The accepted notifications of a step and the progress
 * of its job are one commit: after a crash the next process continues after the last step. A few jobs are in memory at
 * once, the others are in the store only.
 */
import { encodingOf, type SharedContent } from '../content.ts'
import { damagedRowOf, SluiceError } from '../errors.ts'
import { type Draft, type Job, pendingOf } from '../model.ts'
import type { Members } from '../ports/fleet.ts'
import { type Clock, type JobWork, pseudonymPrefix, type Store } from '../ports.ts'
import type { Contents, Gate, Ledger } from '../stages.ts'
import { readBatchRecipient } from './draft.ts'

export interface JobRunnerOptions {
  readonly gate: Pick<Gate, 'admit'>
  readonly store: Pick<Store, 'job' | 'jobWork' | 'runningJobs' | 'isVersioned'>
  readonly ledger: Pick<Ledger, 'commit'>
  readonly contents: Pick<Contents, 'find'>
  readonly members: Pick<Members, 'holds'>
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

type JobName = Pick<Job, 'id' | 'tenant' | 'module'>

export interface JobRunner {
  /** Appends a running job to its queue. */
  add(job: JobName): void
  /** Starts no further step of the job. */
  remove(job: JobName): void
  /** The number of jobs that are not done yet; 0 where another process accepts them. */
  size(): number
  /** Resumes the jobs of an earlier process. */
  start(): Promise<void>
  /** Resolves when the current step is committed: from then on the runner follows the record as it is now. */
  reread(): Promise<void>
  /** Resolves when the current step is committed. */
  stop(): Promise<void>
}

/**
 * Recipients of one step at most: some 3 ms of the event loop and a share of a commit; then others have their
 * turn.
 */
const stepMax = 20
/** Bytes of the recipients' own data in one step, as JSON: deciding and writing them takes some 2 ms in one turn. */
const stepMaxBytes = 2 ** 15
/** Bytes of that data that are read in one turn of the event loop: some 1 ms. */
const sliceBytes = 2 ** 14
/** Jobs in memory at most, one for each queue that takes turns; one holds up to some megabytes. */
const activeMax = 8
/** The delay before a failed step is retried, where the error gives none. */
const againMs = 1_000
/** Where several processes write, the store is asked this often for jobs that others opened, ms. */
const lookMs = 1_000

/** The jobs of one module of a tenant. */
interface JobQueue {
  readonly key: string
  readonly jobs: JobName[]
  /** The first job of the queue, with its progress. */
  loaded?: Loaded | undefined
}

interface Loaded {
  readonly job: Job
  readonly work: JobWork
  /** The content that all recipients share. */
  readonly content?: SharedContent
  /** Steps of one recipient that remain, to find the one that cannot be accepted. */
  readonly single: number
}

export function createJobRunner(options: JobRunnerOptions): JobRunner {
  const { gate, store, ledger, contents, members, clock, onError } = options
  /** Every queue is among the `active` ones, which take turns, or `idle`, waits after a failure, or has its step running. */
  const queues = new Map<string, JobQueue>()
  const active: JobQueue[] = []
  const idle: JobQueue[] = []
  let running = false
  let working: Promise<void> | undefined
  let stepping: Promise<void> | undefined
  let disarm: (() => void) | undefined
  const isMine = (): boolean => members.holds('jobs')

  const keyOf = ({ tenant, module }: JobName): string => JSON.stringify([tenant, module])

  function add(job: JobName): void {
    if (!isMine()) return
    const key = keyOf(job)
    let queue = queues.get(key)
    if (queue === undefined) {
      queue = { key, jobs: [] }
      queues.set(key, queue)
      idle.push(queue)
    }
    // A job that is opened while the process starts is found on record too.
    if (queue.jobs.some(({ id }) => id === job.id)) return
    queue.jobs.push({ id: job.id, tenant: job.tenant, module: job.module })
    wake()
  }

  function wake(): void {
    if (!running || working !== undefined || !isMine()) return
    working = work().finally(() => {
      working = undefined
    })
  }

  async function work(): Promise<void> {
    while (running && isMine()) {
      while (active.length < activeMax && idle.length > 0) active.push(idle.shift()!)
      const queue = active.shift()
      if (queue === undefined) return
      try {
        stepping = takeTurn(queue)
        await stepping
      } catch (error) {
        setAside(queue, error)
      }
      stepping = undefined
      await new Promise<void>((resolve) => clock.soon(resolve))
    }
    // Another process goes on with them.
    for (const queue of queues.values()) queue.loaded = undefined
  }

  async function look(): Promise<void> {
    for (const job of isMine() ? await store.runningJobs() : []) add(job)
    wake()
  }

  /** Looks for jobs that other processes opened, or had when they died. */
  function lookAgain(): void {
    disarm = clock.at(clock.now() + lookMs, () => {
      look()
        .catch((error) => onError('look for batches of other processes', error))
        .finally(() => running && lookAgain())
    })
  }

  async function takeTurn(queue: JobQueue): Promise<void> {
    const [name] = queue.jobs
    if (name !== undefined) {
      const loaded = queue.loaded?.job.id === name.id ? queue.loaded : await loadOrEnd(name)
      const next = loaded === undefined ? undefined : await step(loaded)
      queue.loaded = undefined
      // It may have been removed meanwhile.
      if (queue.jobs[0] === name) {
        if (next === undefined) queue.jobs.shift()
        else queue.loaded = next
      }
    }
    if (queue.jobs.length === 0) queues.delete(queue.key)
    else if (queue.loaded !== undefined) active.push(queue)
    else idle.push(queue)
  }

  /**
   * Unloads the job after a failure and retries later: nothing is lost, since it is read from the record again.
   */
  function setAside(queue: JobQueue, error: unknown): void {
    queue.loaded = undefined
    const retryMs = (error instanceof SluiceError ? error.retryAfterMs : undefined) ?? againMs
    clock.at(clock.now() + retryMs, () => {
      idle.push(queue)
      wake()
    })
    onError('accept a batch in the background', error)
  }

  /**
   * Loads a job. One whose row, work or content is damaged cannot go on: it ends, and the next one of its queue
   * has its turn.
   */
  async function loadOrEnd(name: JobName): Promise<Loaded | undefined> {
    try {
      return await load(name)
    } catch (error) {
      if (damagedRowOf(error) === undefined) throw error
      onError(`job ${name.id} cannot go on, and is cancelled`, error)
      await cancel(name)
      return undefined
    }
  }

  async function cancel({ tenant, id }: JobName): Promise<void> {
    const before = await store.job(tenant, id).catch(ignoreDamage)
    if (before?.status !== 'running') return
    const after: Job = { ...before, status: 'cancelled' }
    const { applied } = await ledger.commit({ jobs: [{ kind: 'move', before, after }] })
    if (!applied) throw new Error(`job ${id} has moved meanwhile`)
  }

  async function load({ tenant, id }: JobName): Promise<Loaded | undefined> {
    const job = await store.job(tenant, id)
    if (job?.status !== 'running') return undefined
    const work = await store.jobWork(job)
    if (work === undefined) return undefined
    if (job.shared === undefined) return { job, work, single: 0 }
    return { job, work, content: await contents.find(tenant, job.shared.id), single: 0 }
  }

  /** Runs one step and returns the progress; undefined at the end of the job. */
  async function step(loaded: Loaded): Promise<Loaded | undefined> {
    const { job, work, content, single } = loaded
    const next = work.recipients.length - pendingOf(job)
    const first = work.recipients[next]
    if (first !== undefined && isErased(first)) {
      const error = new SluiceError('NOT_FOUND', 'This person was erased.')
      const after = await refuse(job, movedOn(job, 1), first.id, error)
      return goesOn(loaded, after, Math.max(0, single - 1))
    }
    const step = work.recipients.slice(next, next + (single > 0 ? 1 : stepOf(job)))
    const end = step.findIndex(isErased)
    const recipients = end === -1 ? step : step.slice(0, end)
    const message = content === undefined ? work.message : { ...work.message, shared: content }
    const drafts: Draft[] = []
    let read = 0
    for (const recipient of recipients) {
      drafts.push({ ...readBatchRecipient(recipient, message), job: job.id })
      read += (recipient.data && encodingOf(recipient.data)?.bytes) ?? 0
      if (read < sliceBytes) continue
      read = 0
      await new Promise<void>((resolve) => clock.soon(resolve))
    }
    const after = movedOn(job, recipients.length)
    try {
      await gate.admit({
        caller: { tenant: job.tenant, module: job.module },
        drafts,
        job: { before: job, after },
      })
      return goesOn(loaded, after, Math.max(0, single - 1))
    } catch (error) {
      const known = error instanceof SluiceError ? error : undefined
      // A tenant may never have room for a whole step: then it goes on with as many as there is room for.
      const isTooWide = known?.code === 'QUEUE_FULL' && recipients.length > 1
      if (isTooWide) return { ...loaded, single: recipients.length }
      if (known?.retryable === true) throw error
      onError(`accept ${recipients.length} of job ${job.id}`, error)
      if (recipients.length > 1) return { ...loaded, single: recipients.length }
      return goesOn(loaded, await refuse(job, after, recipients[0]!.id, error), Math.max(0, single - 1))
    }
  }

  /** Refuses a recipient that cannot be accepted even alone; the others go on. */
  async function refuse(before: Job, moved: Job, recipient: string, error: unknown): Promise<Job> {
    const known = error instanceof SluiceError
    const code = known ? error.code : 'INTERNAL'
    const detail = known
      ? error.message
      : 'Something went wrong that nobody foresaw; the log of the gateway has the cause.'
    const after = { ...moved, refused: [...before.refused, { recipient, code, detail }] }
    const result = await ledger.commit({ jobs: [{ kind: 'move', before, after }] })
    if (!result.applied) throw new Error(`job ${before.id} has moved meanwhile`)
    return after
  }

  return {
    add,
    remove(job) {
      const jobs = queues.get(keyOf(job))?.jobs ?? []
      const index = jobs.findIndex(({ id }) => id === job.id)
      if (index >= 0) jobs.splice(index, 1)
    },
    size: () => (isMine() ? [...queues.values()].reduce((sum, { jobs }) => sum + jobs.length, 0) : 0),
    async start() {
      running = true
      await look()
      if (store.isVersioned) lookAgain()
    },
    async reread() {
      for (const queue of queues.values()) queue.loaded = undefined
      if (stepping !== undefined) {
        await stepping.catch(() => {})
        for (const queue of queues.values()) queue.loaded = undefined
      }
    },
    async stop() {
      running = false
      disarm?.()
      await working
    },
  }
}

function ignoreDamage(error: unknown): undefined {
  if (damagedRowOf(error) === undefined) throw error
}

const isErased = ({ id }: JobWork['recipients'][number]): boolean => id.startsWith(pseudonymPrefix)

const goesOn = (loaded: Loaded, job: Job, single: number): Loaded | undefined =>
  job.status === 'running' ? { ...loaded, job, single } : undefined

function movedOn(job: Job, by: number): Job {
  const taken = job.taken + by
  return { ...job, taken, status: taken === job.total ? 'done' : 'running' }
}

/** Recipients of one step: fewer where each has much data of its own. */
const stepOf = ({ bytes = 0, total }: Job): number =>
  Math.max(1, Math.min(stepMax, Math.floor((stepMaxBytes * total) / Math.max(1, bytes))))

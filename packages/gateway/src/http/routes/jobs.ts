/** Routes of jobs: the progress of a batch in the background, and its cancellation. */
import type { FastifyRequest } from 'fastify'
import { SluiceError } from '../../errors.ts'
import { isFinal, type Job } from '../../model.ts'
import type { Store } from '../../ports.ts'
import type { Jobs, Ledger } from '../../stages.ts'
import { jobAnswer, knowsJobOf } from '../answer.ts'
import { jobSchema } from '../answer-schema.ts'
import { operatorScope } from '../identity.ts'
import { basePath, type Route } from '../route.ts'
import { idParams } from '../schema.ts'

export interface JobRoutesOptions {
  readonly jobs: Pick<Jobs, 'cancel'>
  readonly store: Pick<Store, 'job' | 'jobMembers'>
  readonly ledger: Pick<Ledger, 'live'>
}

export function jobRoutes({ jobs, store, ledger }: JobRoutesOptions): readonly Route[] {
  /**
   * Finds a job. One of another module is not found: even its existence is hidden. Operators see all jobs of
   * the tenant.
   */
  async function find({ caller, params }: FastifyRequest): Promise<Job> {
    const { id } = params as { id: string }
    const job = await store.job(caller.tenant, id)
    if (job !== undefined && knowsJobOf(caller, job)) return job
    throw notFound()
  }

  return [
    {
      method: 'GET',
      path: `${basePath}/jobs/:id`,
      operation: 'getJob',
      tag: 'Batches',
      summary: 'Progress of a batch in the background',
      access: 'caller',
      params: idParams,
      answers: { 200: { description: 'The job, and its notifications by state', schema: jobSchema } },
      problems: ['NOT_FOUND', 'STORE_UNAVAILABLE'],
      async handle(request) {
        const job = await find(request)
        const members = await store.jobMembers(job)
        return jobAnswer(
          job,
          // A notification that another process has ended may still be held here.
          members.map(({ id, status }) => (isFinal(status) ? status : (ledger.live(id)?.status ?? status))),
        )
      },
    },
    {
      method: 'DELETE',
      path: `${basePath}/jobs/:id`,
      operation: 'cancelJob',
      tag: 'Batches',
      summary: 'Accept nothing more of a batch, and cancel what of it still waits',
      access: 'caller',
      counts: 'writes',
      params: idParams,
      answers: { 204: { description: 'It is cancelled, now or since before' } },
      problems: ['NOT_FOUND', 'NOT_CANCELLABLE', 'STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(request, reply) {
        const job = await find(request)
        const { caller } = request
        if (job.module !== caller.module && !caller.scopes.has(operatorScope)) throw notFound()
        await jobs.cancel(job)
        return reply.code(204).send()
      },
    },
  ]
}

const notFound = (): SluiceError => new SluiceError('NOT_FOUND', 'There is no job with this id.')

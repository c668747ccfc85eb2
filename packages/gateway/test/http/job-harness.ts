import { SluiceError } from '../../src/errors.ts'
import type { Job, Refusal, Status } from '../../src/model.ts'
import type { Change, JobWork, Store } from '../../src/ports.ts'
import type { Caller } from '../../src/stages.ts'
import { type Harness, second } from '../harness.ts'
import { overriding } from '../overriding.ts'

export const policy = { version: 1, limits: [] }
export const mine: Caller = { tenant: 'default', module: 'default' }
export const tenants = (more: object) => ({
  tenants: { default: { rate: 'unlimited', modules: 'unlimited', ...more } },
})

export function workFor(count: number, message: Partial<JobWork['message']> = {}, name = 'r'): JobWork {
  return {
    message: {
      channel: 'email',
      category: 'product',
      priority: 'normal',
      content: { subject: 'Hello', text: 'World' },
      ...message,
    },
    recipients: Array.from({ length: count }, (_, index) => ({
      id: `${name}${index}`,
      email: `${name}${index}@example.com`,
    })),
  }
}

export const open = (
  harness: Harness,
  work: JobWork,
  caller = mine,
  refused: readonly Refusal[] = [],
): Promise<Job> => harness.done(harness.gateway.jobs.open({ caller, work, refused }))

export async function stateOf(harness: Harness, { tenant, id }: Job) {
  const job = (await harness.gateway.store.job(tenant, id))!
  const counts: Partial<Record<Status, number>> = {}
  for (const { status } of await harness.gateway.store.jobMembers(job))
    counts[status] = (counts[status] ?? 0) + 1
  return { status: job.status, taken: job.taken, counts, refused: job.refused }
}

export const queueOf = ({ gateway }: Harness): number => gateway.ledger.occupancy('default').queue

export async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'done',
    (error: unknown) => (error instanceof SluiceError ? error.code : String(error)),
  )
}

/** Refuses the chosen commits, as a full disk would. */
export function failing(store: Store, fails: (change: Change) => boolean): Store {
  return overriding(store, {
    async commit(change) {
      if (fails(change)) throw new SluiceError('STORE_UNAVAILABLE', 'Full.', { retryAfterMs: second })
      return store.commit(change)
    },
  })
}

/**
 * The search of the console and of operators: an exact id of a notification, a job or a recipient, or an idempotency
 * key. Each is one look-up by an index that exists; nothing is scanned, and only the caller's tenant is searched.
 */
import type { Clock, Store } from '../../ports.ts'
import type { Ledger } from '../../stages.ts'
import { iso, knowsJobOf, notificationAnswer, shown } from '../answer.ts'
import { type SearchParams, searchQuery, searchSchema } from '../operator-schema.ts'
import { basePath, keyedPaths, type Route } from '../route.ts'
import { withFeedback } from '../timeline-feedback.ts'
import { aheadOf, inWallTime } from '../wall-time.ts'

export interface SearchRoutesOptions {
  readonly store: Pick<
    Store,
    'notification' | 'job' | 'recipient' | 'list' | 'answer' | 'mayHave' | 'feedback'
  >
  readonly ledger: Pick<Ledger, 'live'>
  readonly clock: Pick<Clock, 'aheadMs'>
}

/** Notifications of a recipient that are answered at most. */
const foundMax = 5

export function searchRoutes({ store, ledger, clock }: SearchRoutesOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: `${basePath}/search`,
      operation: 'search',
      tag: 'Operation',
      summary: 'Find a notification, job, recipient or idempotency key by its exact id',
      access: 'caller',
      counts: 'reads',
      query: searchQuery,
      answers: { 200: { description: 'At most five of each', schema: searchSchema } },
      problems: ['STORE_UNAVAILABLE'],
      async handle({ query, caller }) {
        const { q } = query as SearchParams
        const { tenant, module } = caller
        const [found, job, stored, list, ...answers] = await Promise.all([
          store.notification(tenant, q),
          store.job(tenant, q),
          store.recipient(tenant, q),
          store.list({ tenant, recipient: q, limit: foundMax }),
          ...keyedPaths.map((path) => store.answer({ tenant, module, method: 'POST', path, key: q })),
        ])
        const aheadMs = aheadOf(clock)
        const notifications = [...(found === undefined ? [] : [found]), ...list.items].slice(0, foundMax)
        const isKnown = list.items.length > 0 || (stored !== undefined && stored.erased === undefined)
        return {
          notifications: (await withFeedback(store.feedback, notifications)).map((each) =>
            notificationAnswer(inWallTime(shown(each, ledger), aheadMs), caller),
          ),
          jobs:
            job === undefined || !knowsJobOf(caller, job)
              ? []
              : [{ jobId: job.id, status: job.status, total: job.total }],
          recipients: isKnown ? [{ id: q }] : [],
          keys: answers
            .filter((answer) => answer !== undefined)
            .map(({ path, status, createdAt }) => ({
              key: q,
              method: 'POST',
              path,
              status,
              at: iso(createdAt + aheadMs),
            })),
          lookedIn: { tenant },
        }
      },
    },
  ]
}

/** Routes of accepted notifications: GET, list, and DELETE. */
import { SluiceError } from '../../errors.ts'
import type { Status } from '../../model.ts'
import type { Clock, ListQuery, Store } from '../../ports.ts'
import type { Gate, Ledger } from '../../stages.ts'
import { knowsJobOf, notificationAnswer, shown } from '../answer.ts'
import { notificationPage, notificationSchema } from '../answer-schema.ts'
import { createExplanations, type ExplanationsOptions } from '../explanations.ts'
import { type Identity, mayRead } from '../identity.ts'
import { definedOf, pageAnswer } from '../page.ts'
import { basePath, keyedPaths, type Route } from '../route.ts'
import { type ExplainQuery, explainQuery, idParams, type ListFilter, listQuery } from '../schema.ts'
import { parseInstant } from '../syntax.ts'
import { withFeedback } from '../timeline-feedback.ts'
import { invalidRequest } from '../validation.ts'
import { aheadOf, inWallTime } from '../wall-time.ts'

export interface NotificationReadRoutesOptions extends ExplanationsOptions {
  readonly gate: Pick<Gate, 'cancel' | 'placeOf'>
  readonly store: Pick<Store, 'notification' | 'list' | 'job' | 'admissions' | 'answer' | 'feedback'>
  readonly ledger: Pick<Ledger, 'live'>
  readonly clock: Clock
}

export function notificationReadRoutes(options: NotificationReadRoutesOptions): readonly Route[] {
  const { gate, store, ledger, policy, pools, holds, clock } = options
  const explanations = createExplanations({ store, policy, pools, holds, clock })

  /** True for a job of another module: its notifications are hidden, as if it did not exist. */
  async function isOfAnotherModule(caller: Identity, id: string | undefined): Promise<boolean> {
    const job = id === undefined ? undefined : await store.job(caller.tenant, id)
    return job !== undefined && !knowsJobOf(caller, job)
  }

  /** Finds what was accepted under an idempotency key, from the stored answer; undefined where nothing was. */
  async function acceptedUnder(
    tenant: string,
    module: string,
    key: string,
  ): Promise<Pick<ListQuery, 'ids' | 'job'> | undefined> {
    for (const path of keyedPaths) {
      const stored = await store.answer({ tenant, module, method: 'POST', path, key })
      if (stored === undefined) continue
      const { jobId, notificationId, results = [] } = JSON.parse(stored.body) as AcceptedBody
      if (jobId !== undefined) return { job: jobId }
      const ids = [notificationId, ...results.map((each) => each.notificationId)]
      return { ids: ids.filter((id) => id !== undefined) }
    }
    return undefined
  }

  return [
    {
      method: 'GET',
      path: `${basePath}/notifications`,
      operation: 'listNotifications',
      tag: 'Notifications',
      summary: 'Notifications, newest first or the first to leave first',
      access: 'caller',
      counts: 'reads',
      query: listQuery,
      answers: { 200: { description: 'A page of them', schema: notificationPage } },
      problems: ['STORE_UNAVAILABLE'],
      rowsOf: ({ query }) => (query as { limit: number }).limit,
      async handle(request, reply) {
        const { caller } = request
        const filter = request.query as ListFilter & { limit: number }
        const tenant = mayRead(caller) && caller.asTenant !== true ? filter.tenant : undefined
        const query = readListQuery(tenant ?? caller.tenant, filter, aheadOf(clock))
        if (tenant === undefined && (await isOfAnotherModule(caller, query.stored.job))) return noPage
        const accepted =
          filter.idempotencyKey === undefined
            ? {}
            : await acceptedUnder(query.stored.tenant, filter.module ?? caller.module, filter.idempotencyKey)
        if (accepted === undefined) return noPage
        return pageAnswer(
          reply,
          await store.list({ ...query.stored, ...accepted }),
          { ledger, clock, caller, feedback: store.feedback },
          query.asked,
        )
      },
    },
    {
      method: 'GET',
      path: `${basePath}/notifications/:id`,
      operation: 'getNotification',
      tag: 'Notifications',
      summary: 'State, decision and timeline of one notification',
      access: 'caller',
      params: idParams,
      query: explainQuery,
      answers: { 200: { description: 'The notification', schema: notificationSchema } },
      problems: ['NOT_FOUND', 'STORE_UNAVAILABLE'],
      async handle(request) {
        const { id } = request.params as { id: string }
        const recorded = await store.notification(request.caller.tenant, id)
        if (recorded === undefined)
          throw new SluiceError('NOT_FOUND', 'There is no notification with this id.')
        const dueAt = await gate.placeOf(recorded)
        const found = dueAt === undefined ? recorded : { ...recorded, dueAt }
        const current = shown(found, ledger)
        const [complete] = await withFeedback(store.feedback, [current])
        const answer = notificationAnswer(inWallTime(complete!, aheadOf(clock)), request.caller)
        if ((request.query as ExplainQuery).explain !== true) return answer
        return { ...answer, explanation: await explanations.of(current, request.caller) }
      },
    },
    {
      method: 'DELETE',
      path: `${basePath}/notifications/:id`,
      operation: 'cancelNotification',
      tag: 'Notifications',
      summary: 'Cancel what still waits; its places in the limits are given back',
      access: 'caller',
      counts: 'writes',
      params: idParams,
      answers: { 204: { description: 'It is cancelled, now or since before' } },
      problems: ['NOT_FOUND', 'NOT_CANCELLABLE', 'STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(request, reply) {
        const { id } = request.params as { id: string }
        await gate.cancel(request.caller.tenant, id)
        return reply.code(204).send()
      },
    },
  ]
}

const noPage = { items: [], nextCursor: null }

/** The ids in the stored answer of a request that accepted something. */
interface AcceptedBody {
  readonly jobId?: string
  readonly notificationId?: string
  readonly results?: readonly { readonly notificationId?: string }[]
}

interface Queries {
  readonly stored: ListQuery
  /** The states to list, where the record alone cannot tell. */
  readonly asked?: ReadonlySet<Status>
}

/**
 * States that look alike on record: a queued or sending notification is recorded in its state before. These are
 * read together and sorted out afterwards.
 */
const alikeOnRecord: readonly Status[] = ['scheduled', 'queued', 'sending']

function readListQuery(tenant: string, filter: ListFilter & { limit: number }, aheadMs: number): Queries {
  const { recipient, status, category, channel, job, from, to, cursor, limit } = filter
  const { module, priority, template, actor, reason, limitName, order } = filter
  const bySendAt = order === 'sendAt'
  const asked =
    status === undefined
      ? bySendAt
        ? new Set(alikeOnRecord)
        : undefined
      : new Set(status.split(',') as Status[])
  if (bySendAt && [...asked!].some((each) => !alikeOnRecord.includes(each)))
    throw invalidRequest([
      { path: '/status', message: `must be one or several of ${alikeOnRecord.join(', ')} with order=sendAt` },
    ])
  const fromMemory = asked !== undefined && alikeOnRecord.some((each) => asked.has(each))
  const statuses =
    asked === undefined ? undefined : [...new Set([...asked, ...(fromMemory ? alikeOnRecord : [])])]
  const stored: ListQuery = {
    tenant,
    limit,
    ...(recipient === undefined ? {} : { recipient }),
    ...(statuses === undefined ? {} : { statuses }),
    ...(category === undefined ? {} : { category }),
    ...(channel === undefined ? {} : { channel }),
    ...(job === undefined ? {} : { job }),
    ...definedOf({ module, priority, template, actor, reason, limitName }),
    ...(from === undefined ? {} : { from: parseInstant(from) - aheadMs }),
    ...(to === undefined ? {} : { to: parseInstant(to) - aheadMs }),
    ...(cursor === undefined ? {} : { cursor }),
    ...(bySendAt ? { order: 'sendAt' } : {}),
  }
  return asked !== undefined && fromMemory ? { stored, asked } : { stored }
}

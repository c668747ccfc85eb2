/** Routes of operators: dead letters. */

import type { Clock, Store } from '../../ports.ts'
import type { Gate, Ledger } from '../../stages.ts'
import { deadLetterPage, redriveSchema } from '../answer-schema.ts'
import { readDeadLetters, recordAnswer } from '../dead-letters.ts'
import { type Idempotency, type Keep, storeBehind } from '../idempotency.ts'
import { definedOf, pageAnswer } from '../page.ts'
import { basePath, type Route } from '../route.ts'
import { type DeadLetterFilter, deadLetterQuery, type RedriveBody, redriveBody } from '../schema.ts'
import { invalidRequest } from '../validation.ts'
import { aheadOf } from '../wall-time.ts'
import { headed } from './notifications.ts'

export interface OperationRoutesOptions {
  readonly gate: Pick<Gate, 'redrive'>
  readonly store: Pick<Store, 'deadLetters' | 'feedback' | 'intake'>
  readonly ledger: Pick<Ledger, 'live' | 'commit'>
  readonly idempotency: Idempotency
  readonly clock: Pick<Clock, 'now' | 'aheadMs' | 'soon'>
}

export function operationRoutes(options: OperationRoutesOptions): readonly Route[] {
  const { gate, store, ledger, idempotency, clock } = options

  async function redrive(body: RedriveBody, caller: string, keep: Keep | undefined) {
    const answer = { status: 200, body: JSON.stringify(await gate.redrive({ ...definedOf(body), caller })) }
    if (keep !== undefined) await storeBehind(ledger, keep(answer))
    return answer
  }

  return [
    {
      method: 'GET',
      path: `${basePath}/dead-letters`,
      operation: 'listDeadLetters',
      tag: 'Operation',
      summary: 'Dead letters, oldest first',
      details:
        'Notifications, and behind them the records of topics that could not be accepted: those have `record` and no id, and are not redriven',
      access: 'reader',
      counts: 'reads',
      query: deadLetterQuery,
      answers: { 200: { description: 'A page of them', schema: deadLetterPage } },
      problems: ['STORE_UNAVAILABLE'],
      rowsOf: ({ query }) => (query as { limit: number }).limit,
      async handle(request, reply) {
        const query = request.query as DeadLetterFilter & { limit: number }
        const { records, ...page } = await readDeadLetters(store, definedOf(query))
        const viewer = { ledger, clock, caller: request.caller, feedback: store.feedback }
        const aheadMs = aheadOf(clock)
        const others = records.map((record) => recordAnswer(record, aheadMs))
        return pageAnswer(reply, page, viewer, undefined, others)
      },
    },
    {
      method: 'POST',
      path: `${basePath}/dead-letters/redrive`,
      operation: 'redriveDeadLetters',
      tag: 'Operation',
      summary: 'Send dead letters on their way again, some or all',
      access: 'operator',
      counts: 'writes',
      body: redriveBody,
      bodyOptional: true,
      answers: { 200: { description: 'How many', schema: redriveSchema } },
      problems: [
        'IDEMPOTENCY_IN_PROGRESS',
        'IDEMPOTENCY_MISMATCH',
        'QUEUE_FULL',
        'STORE_UNAVAILABLE',
        'STATE_UNAVAILABLE',
      ],
      async handle(request, reply) {
        const body = request.body as RedriveBody
        checkRedrive(body)
        const { tenant } = request.caller
        const answer = await idempotency.once(request, (keep) => redrive(body, tenant, keep))
        const { ids, ...filter } = body
        request.audit = {
          filter: { ...filter, ...(ids === undefined ? {} : { ids: ids.length }) },
          count: (JSON.parse(answer.body) as { redriven: number }).redriven,
        }
        return headed(reply, answer, clock.now() + aheadOf(clock))
      },
    },
  ]
}

/**
 * Refuses an empty body: it would redrive everything, even notifications that may have arrived, so `all` has to
 * be explicit.
 */
function checkRedrive({ cause, causes, channel, tenant, ids, all }: RedriveBody): void {
  if (all === true || [cause, causes, channel, tenant, ids].some((given) => given !== undefined)) return
  throw invalidRequest([
    {
      path: '',
      message:
        'must name a cause, causes, channel, tenant or ids, or say {"all": true} to redrive everything',
    },
  ])
}

/** Routes of operators: dead letters, policy. */

import { SluiceError } from '../../errors.ts'
import { compilePolicy } from '../../policy/compile.ts'
import { missingTemplates } from '../../policy/digest-templates.ts'
import type { Policy } from '../../policy/policy.ts'
import type { Clock, DeadLetterQuery, Store, Templates } from '../../ports.ts'
import type { Gate, Ledger } from '../../stages.ts'
import { notificationPage, policyCheckSchema, policySchema, redriveSchema } from '../answer-schema.ts'
import type { Idempotency, Keep } from '../idempotency.ts'
import { readKey } from '../idempotency.ts'
import { isDeeperThan } from '../json.ts'
import { pageAnswer } from '../page.ts'
import { basePath, type Route } from '../route.ts'
import {
  type DeadLetterFilter,
  deadLetterQuery,
  policyBody,
  type RedriveBody,
  redriveBody,
} from '../schema.ts'
import { invalidRequest } from '../validation.ts'
import { aheadOf } from '../wall-time.ts'
import { headed } from './notifications.ts'

export interface OperationRoutesOptions {
  readonly gate: Pick<Gate, 'redrive'>
  readonly store: Pick<Store, 'deadLetters'>
  readonly ledger: Pick<Ledger, 'live' | 'commit'>
  readonly policy: Policy
  /** The templates, parsed at start. */
  readonly templates: Pick<Templates, 'has'>
  readonly idempotency: Idempotency
  readonly clock: Pick<Clock, 'now' | 'aheadMs' | 'soon'>
}

const policyLevelsMax = 12

export function operationRoutes(options: OperationRoutesOptions): readonly Route[] {
  const { gate, store, ledger, policy, templates, idempotency, clock } = options

  async function redrive(body: RedriveBody, caller: string, keep: Keep | undefined) {
    const answer = { status: 200, body: JSON.stringify(await gate.redrive({ ...definedOf(body), caller })) }
    if (keep !== undefined) await ledger.commit({ answer: keep(answer) })
    return answer
  }

  return [
    {
      method: 'GET',
      path: `${basePath}/dead-letters`,
      operation: 'listDeadLetters',
      tag: 'Operation',
      summary: 'Dead letters, oldest first',
      access: 'reader',
      counts: 'reads',
      query: deadLetterQuery,
      answers: { 200: { description: 'A page of them', schema: notificationPage } },
      problems: ['STORE_UNAVAILABLE'],
      rowsOf: ({ query }) => (query as { limit: number }).limit,
      async handle(request, reply) {
        const query = request.query as DeadLetterFilter & { limit: number }
        return pageAnswer(reply, await store.deadLetters(definedOf(query)), {
          ledger,
          clock,
          caller: request.caller,
        })
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
    {
      method: 'GET',
      path: `${basePath}/policy`,
      operation: 'getPolicy',
      tag: 'Operation',
      summary: 'The policy in force and its version',
      access: 'reader',
      answers: { 200: { description: 'With its defaults written out', schema: policySchema } },
      handle: () => ({ version: policy.version, policy: policy.document }),
    },
    {
      method: 'POST',
      path: `${basePath}/policy/validate`,
      audited: false,
      operation: 'validatePolicy',
      tag: 'Operation',
      summary: 'Check a policy without putting it in force',
      access: 'reader',
      counts: 'writes',
      body: policyBody,
      answers: {
        200: { description: 'Whether it is valid, and what is wrong with it', schema: policyCheckSchema },
      },
      handle(request) {
        const key = request.headers['idempotency-key']
        if (key !== undefined) readKey(key)
        return checkPolicy(request.body, templates)
      },
    },
  ]
}

function checkPolicy(document: unknown, templates: Pick<Templates, 'has'>) {
  if (isDeeperThan(document, policyLevelsMax)) {
    return {
      valid: false,
      errors: [{ path: '', message: `must not be deeper than ${policyLevelsMax} levels` }],
    }
  }
  try {
    const policy = compilePolicy(document)
    const errors = missingTemplates(policy, templates.has)
    return errors.length === 0 ? { valid: true, version: policy.version } : { valid: false, errors }
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    const errors = error.errors ?? [{ path: '', message: error.message }]
    return { valid: false, errors: errors.map(({ path, message }) => ({ path, message })) }
  }
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

/** Removes undefined filters: to a store an absent filter and an undefined one differ. */
function definedOf<T extends Partial<DeadLetterQuery>>(query: T): T {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as T
}

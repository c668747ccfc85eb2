/** Routes of the policy: the one in force, its use, and the check of another one. */
import type { Policy } from '../../policy/policy.ts'
import type { Peers } from '../../ports/fleet.ts'
import type { Clock, Templates } from '../../ports.ts'
import type { Ledger } from '../../stages.ts'
import { iso } from '../answer.ts'
import { policyCheckSchema, policySchema } from '../answer-schema.ts'
import { readKey } from '../idempotency.ts'
import { type PolicyUseParams, policyUseQuery, policyUseSchema } from '../operator-schema.ts'
import { readPolicy } from '../policy-check.ts'
import { createPolicyUse, type UsePeriod, type UseShare, useOf } from '../policy-use.ts'
import { basePath, type Route } from '../route.ts'
import { policyBody } from '../schema.ts'
import { aheadOf } from '../wall-time.ts'

export interface PolicyRoutesOptions {
  /** The policy in force. */
  readonly policy: Policy
  readonly ledger: Pick<Ledger, 'subscribe'>
  /** The templates, parsed at start. */
  readonly templates: Pick<Templates, 'has'>
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
  /** The other processes of a fleet, which count, too. @defaultValue there are none */
  readonly peers?: Pick<Peers, 'ask' | 'answer'> | undefined
}

export function policyRoutes(options: PolicyRoutesOptions): readonly Route[] {
  const { policy, ledger, templates, clock, peers } = options
  const use = createPolicyUse({ ledger, clock })
  peers?.answer('policyUse', (period) => use.read(period as UsePeriod))
  return [
    {
      method: 'GET',
      path: `${basePath}/policy/use`,
      operation: 'getPolicyUse',
      tag: 'Operation',
      summary: 'Decisions by limit and window of the policy, over the last hour, day or week',
      details:
        'Counters in memory by hour, which begin with the process: at most 400 windows, the rest as `other`. In a fleet those of all gateways. `recipientsFull` is an estimate',
      access: 'reader',
      counts: 'reads',
      query: policyUseQuery,
      answers: { 200: { description: 'The windows that were asked about', schema: policyUseSchema } },
      async handle({ query }) {
        const { period = '1h' } = query as PolicyUseParams
        const asked = await peers?.ask('policyUse', period)
        const others = [...(asked?.answers.values() ?? [])] as readonly UseShare[]
        const { from, windows } = useOf([use.read(period), ...others])
        const aheadMs = aheadOf(clock)
        return {
          at: iso(clock.now() + aheadMs),
          from: iso(from + aheadMs),
          period,
          policyVersion: policy.version,
          windows,
        }
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
        const { policy: read, errors } = readPolicy(request.body, templates)
        return read === undefined ? { valid: false, errors } : { valid: true, version: read.version }
      },
    },
  ]
}

/** Routes of replays: recorded traffic under another policy, made beside the running gateway. */
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { SluiceError } from '../../errors.ts'
import type { JsonObject } from '../../model.ts'
import type { Policy } from '../../policy/policy.ts'
import type { Clock, Templates } from '../../ports.ts'
import type { Ledger } from '../../stages.ts'
import { iso } from '../answer.ts'
import { type Idempotency, type Keep, storeBehind } from '../idempotency.ts'
import { readPolicy } from '../policy-check.ts'
import { basePath, type Route } from '../route.ts'
import { idParams, instant, policyBody, text } from '../schema.ts'
import { parseInstant } from '../syntax.ts'
import { invalidRequest } from '../validation.ts'
import { aheadOf } from '../wall-time.ts'
import { headed } from './notifications.ts'

const replayBody = Type.Object(
  {
    from: instant('Requests accepted at this instant or later.'),
    to: instant('Requests accepted before this instant.'),
    policy: policyBody,
    against: Type.Optional(
      Type.Unsafe<JsonObject>({
        type: 'object',
        description: 'The policy that was in force. Default the one in force now.',
      }),
    ),
    tenant: Type.Optional(text('printable', 256, 'Only this tenant. Default all.')),
    sample: Type.Optional(
      Type.Number({ minimum: 0.000001, maximum: 1, description: 'The share of the people. Default 1.' }),
    ),
  },
  { additionalProperties: false, $id: 'ReplayRequest' },
)
type ReplayBody = Static<typeof replayBody>

const replaySchema = Type.Object(
  {
    replayId: Type.String(),
    status: Type.Union([Type.Literal('running'), Type.Literal('done'), Type.Literal('failed')]),
    progress: Type.Number({ minimum: 0, maximum: 1 }),
    createdAt: instant('When it was started.'),
    result: Type.Optional(
      Type.Object(
        {},
        { additionalProperties: true, description: 'The comparison, as `sluice replay --json` prints it.' },
      ),
    ),
    detail: Type.Optional(Type.String({ description: 'Says why it failed.' })),
  },
  { $id: 'Replay' },
)

export interface ReplayRequest {
  /** Wall-clock instants: inclusive, and exclusive. Epoch ms. */
  readonly from: number
  readonly to: number
  /** @defaultValue all tenants */
  readonly tenant?: string
  /** The share of people, above 0 to 1. @defaultValue 1 */
  readonly sample?: number
  readonly policy: Policy
  /** @defaultValue the policy in force */
  readonly against?: Policy
  /** True while notifications are late: the replay pauses. */
  readonly isLate: () => boolean
}

export interface ReplayReport {
  readonly id: string
  readonly status: 'running' | 'done' | 'failed'
  /** The share that is done, from 0 to 1. */
  readonly progress: number
  /** Epoch ms. */
  readonly createdAt: number
  /** The comparison, once it is done. */
  readonly result?: JsonObject
  /** Says why it failed. */
  readonly detail?: string
}

/** Replays: a process makes one at a time, and keeps its last ones in memory. In a fleet any process finds those of all. */
export interface Replays {
  /** Starts a replay. Throws REQUEST_LIMIT_EXCEEDED while another one runs. */
  start(request: ReplayRequest): Promise<ReplayReport>
  /** Rejects with STATE_UNAVAILABLE where another process may have it and does not answer. */
  find(id: string): Promise<ReplayReport | undefined>
  /** Ends and forgets a replay; false where there is none of this id. Rejects as `find` does. */
  remove(id: string): Promise<boolean>
  close(): Promise<void>
}

export interface ReplayRoutesOptions {
  readonly replays: Replays
  readonly ledger: Pick<Ledger, 'commit'>
  readonly idempotency: Idempotency
  readonly templates: Pick<Templates, 'has'>
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
  /** The 99th percentile of lateness over the last minute, ms. */
  readonly latenessP99Ms: () => number | null
}

/** Notifications that are later than this hold a replay up, ms. */
const lateMs = 1_000

export function replayRoutes({
  replays,
  ledger,
  idempotency,
  templates,
  clock,
  latenessP99Ms,
}: ReplayRoutesOptions): readonly Route[] {
  function policyOf(document: unknown, field: string): Policy {
    const { policy, errors = [] } = readPolicy(document, templates)
    if (policy !== undefined) return policy
    throw invalidRequest(
      errors.map(({ path, message }) => ({
        path: `/${field}`,
        message: path === '' ? message : `${path}: ${message}`,
      })),
    )
  }

  async function find({ params }: FastifyRequest): Promise<ReplayReport> {
    const found = await replays.find((params as { id: string }).id)
    if (found === undefined) throw notFound()
    return found
  }

  const answerOf = ({ id, status, progress, createdAt, result, detail }: ReplayReport) => ({
    replayId: id,
    status,
    progress,
    createdAt: iso(createdAt + aheadOf(clock)),
    ...(result === undefined ? {} : { result }),
    ...(detail === undefined ? {} : { detail }),
  })

  /** Starts a replay, and keeps the answer for a repeated request. */
  async function start(request: ReplayRequest, keep: Keep | undefined) {
    const report = await replays.start(request)
    const accepted = { status: 202, body: JSON.stringify(answerOf(report)) }
    try {
      if (keep !== undefined) await storeBehind(ledger, keep(accepted))
    } catch (error) {
      // The caller is told that nothing was started.
      await replays.remove(report.id)
      throw error
    }
    return accepted
  }

  return [
    {
      method: 'POST',
      path: `${basePath}/replays`,
      audited: false,
      operation: 'startReplay',
      tag: 'Operation',
      summary: 'Replay recorded traffic under another policy',
      details:
        'Takes the requests that were accepted from `from` to before `to` through the decisions of `policy`, and of the policy that was in force (`against`, by default the one in force now), in virtual time. It runs in a process of the lowest priority, one at a time, and pauses while notifications are late. The result stays in the memory of the gateway that makes it, and any gateway of a fleet answers for it: the last ten replays of each',
      access: 'operator',
      counts: 'writes',
      body: replayBody,
      answers: { 202: { description: 'It is under way', schema: replaySchema } },
      problems: [
        'IDEMPOTENCY_IN_PROGRESS',
        'IDEMPOTENCY_MISMATCH',
        'REQUEST_LIMIT_EXCEEDED',
        'STORE_UNAVAILABLE',
        'STATE_UNAVAILABLE',
      ],
      async handle(request, reply) {
        const { from: fromText, to: toText, tenant, sample, policy, against } = request.body as ReplayBody
        const [from, to] = [parseInstant(fromText), parseInstant(toText)]
        if (from >= to) throw invalidRequest([{ path: '/to', message: 'must be later than `from`' }])
        const asked: ReplayRequest = {
          from,
          to,
          ...(tenant === undefined ? {} : { tenant }),
          ...(sample === undefined ? {} : { sample }),
          policy: policyOf(policy, 'policy'),
          ...(against === undefined ? {} : { against: policyOf(against, 'against') }),
          isLate: () => (latenessP99Ms() ?? 0) > lateMs,
        }
        const answer = await idempotency.once(request, (keep) => start(asked, keep))
        return headed(reply, answer, clock.now() + aheadOf(clock))
      },
    },
    {
      method: 'GET',
      path: `${basePath}/replays/:id`,
      operation: 'getReplay',
      tag: 'Operation',
      summary: 'The progress of a replay, and its comparison once it is done',
      access: 'reader',
      params: idParams,
      answers: { 200: { description: 'The replay', schema: replaySchema } },
      problems: ['NOT_FOUND', 'STATE_UNAVAILABLE'],
      handle: async (request) => answerOf(await find(request)),
    },
    {
      method: 'DELETE',
      path: `${basePath}/replays/:id`,
      audited: false,
      operation: 'deleteReplay',
      tag: 'Operation',
      summary: 'End a replay, and forget its result',
      access: 'operator',
      counts: 'writes',
      params: idParams,
      answers: { 204: { description: 'It is gone' } },
      problems: ['NOT_FOUND', 'STATE_UNAVAILABLE'],
      async handle(request, reply) {
        if (!(await replays.remove((request.params as { id: string }).id))) throw notFound()
        return reply.code(204).send()
      },
    },
  ]
}

const notFound = (): SluiceError =>
  new SluiceError(
    'NOT_FOUND',
    'There is no replay with this id. The last ten are kept, and forgotten when the gateway ends.',
  )

/** The route that decides about a notification under a changed policy or at a later instant, and consumes nothing. */
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyRequest } from 'fastify'
import { SluiceError } from '../../errors.ts'
import type { Channel, Decision, Draft, Notification } from '../../model.ts'
import type { Policy } from '../../policy/policy.ts'
import type { Clock, Store, Templates } from '../../ports.ts'
import type { Caller, Recipients } from '../../stages.ts'
import { decisionAnswer } from '../answer.ts'
import { decisionSchema } from '../answer-schema.ts'
import type { Offer } from '../draft.ts'
import { createDraftReader } from '../draft-checks.ts'
import { readKey } from '../idempotency.ts'
import { readPolicy } from '../policy-check.ts'
import { basePath, type Route } from '../route.ts'
import { instant, notificationBody, policyBody, text } from '../schema.ts'
import { parseInstant } from '../syntax.ts'
import { invalidRequest } from '../validation.ts'
import { aheadOf, decisionInWallTime } from '../wall-time.ts'

const previewBody = Type.Object(
  {
    policy: Type.Optional(policyBody),
    notification: Type.Optional(notificationBody),
    notificationId: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, description: 'In place of `notification`: one on record.' }),
    ),
    at: Type.Optional(instant('The instant of the second decision. Default now.')),
    tenant: Type.Optional(text('printable', 256, "Whose limits count. Default the caller's tenant.")),
  },
  { additionalProperties: false, $id: 'PolicyPreviewRequest' },
)
type PreviewBody = Static<typeof previewBody>

const previewSchema = Type.Object(
  // biome-ignore lint/suspicious/noThenProperty: the name of the field in the contract; it is no function
  { now: decisionSchema, then: decisionSchema },
  { $id: 'PolicyPreview' },
)

/** A notification that was drafted or recorded, and the policy and instant for the second decision. */
export interface PreviewRequest {
  readonly caller: Caller
  readonly draft?: Draft
  readonly notification?: Notification
  /** @defaultValue the policy in force */
  readonly policy?: Policy
  /** @defaultValue now */
  readonly at?: number
}

export interface PreviewedDecision {
  readonly decision: Decision
  /** The channel that would carry it, after a fallback. */
  readonly channel: Channel
}

/**
 * Decides under the policy in force now, and under the requested policy at the requested instant. Consumes nothing.
 * Throws REQUEST_LIMIT_EXCEEDED while another preview is made, INVALID_REQUEST where the limits count too much to read.
 */
export type PolicyPreview = (
  request: PreviewRequest,
) => Promise<{ readonly now: PreviewedDecision; readonly then: PreviewedDecision }>

export interface PolicyPreviewRoutesOptions {
  readonly preview: PolicyPreview
  readonly store: Pick<Store, 'notification'>
  readonly recipients: Pick<Recipients, 'find' | 'forget'>
  readonly templates: Pick<Templates, 'has'>
  readonly offer: Offer
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
}

export function policyPreviewRoutes(options: PolicyPreviewRoutesOptions): readonly Route[] {
  const { preview, store, recipients, templates, offer, clock } = options
  const readDraft = createDraftReader({ recipients, offer, clock })

  async function subjectOf(
    { notification, notificationId }: PreviewBody,
    caller: Caller,
    request: FastifyRequest,
  ): Promise<Pick<PreviewRequest, 'draft' | 'notification'> & { readonly channel: Channel }> {
    if ((notification === undefined) === (notificationId === undefined))
      throw invalidRequest([{ path: '', message: 'must have either notification or notificationId' }])
    if (notification !== undefined) {
      const { length = 0 } = request.received ?? {}
      const draft = await readDraft(notification, caller.tenant, length, '/notification')
      return { draft, channel: draft.channel }
    }
    const recorded = await store.notification(caller.tenant, notificationId!)
    if (recorded === undefined) throw new SluiceError('NOT_FOUND', 'There is no notification with this id.')
    return { notification: recorded, channel: recorded.requestedChannel ?? recorded.channel }
  }

  function policyOf(document: unknown): Policy {
    const { policy, errors = [] } = readPolicy(document, templates)
    if (policy !== undefined) return policy
    throw invalidRequest(errors.map(({ path, message }) => ({ path: pointerOf(path), message })))
  }

  function instantOf(written: string): number {
    const at = parseInstant(written) - aheadOf(clock)
    if (at >= clock.now()) return at
    throw invalidRequest([{ path: '/at', message: 'must be in the future' }])
  }

  return [
    {
      method: 'POST',
      path: `${basePath}/policy/preview`,
      audited: false,
      operation: 'previewPolicy',
      tag: 'Operation',
      summary: 'The decision about a notification now, and under a changed policy or at a later instant',
      details:
        '`now` is the decision under the policy in force at this moment, `then` the one under `policy` at the instant `at`; each of the two may be left out. The notification is one as for POST /notifications, or the id of one on record, which is decided as if it were sent again and does not count itself. Both decisions are computed from the record as after a restart, at most 50,000 notifications each, one preview at a time; nothing is consumed',
      access: 'operator',
      counts: 'writes',
      body: previewBody,
      answers: { 200: { description: 'Both decisions', schema: previewSchema } },
      problems: ['NOT_FOUND', 'STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(request) {
        const key = request.headers['idempotency-key']
        if (key !== undefined) readKey(key)
        const body = request.body as PreviewBody
        const { module, tenant } = request.caller
        const caller: Caller = { module, tenant: body.tenant ?? tenant }
        const { channel: asked, ...subject } = await subjectOf(body, caller, request)
        const { now, then } = await preview({
          caller,
          ...subject,
          ...(body.policy === undefined ? {} : { policy: policyOf(body.policy) }),
          ...(body.at === undefined ? {} : { at: instantOf(body.at) }),
        })
        const answer = ({ decision, channel }: PreviewedDecision) => ({
          ...decisionAnswer(decisionInWallTime(decision, aheadOf(clock))),
          channel: channel === asked ? undefined : channel,
        })
        // biome-ignore lint/suspicious/noThenProperty: the name of the field in the contract; it is no function
        return { now: answer(now), then: answer(then) }
      },
    },
  ]
}

/** The JSON Pointer of a place in the policy: `limits[3].over` is `/policy/limits/3/over`. */
const pointerOf = (path: string): string =>
  ['/policy', ...path.split(/[.[\]]+/).filter((step) => step !== '')].join('/')

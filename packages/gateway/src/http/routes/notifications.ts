/** Routes that take a notification: POST, and the dry run. */
import { retryAfterSeconds } from '@sluice/limits'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { SluiceError } from '../../errors.ts'
import type { Draft } from '../../model.ts'
import type { Clock } from '../../ports.ts'
import type { Admitted, Gate, Recipients } from '../../stages.ts'
import { acceptedText } from '../accepted-text.ts'
import { decisionAnswer, iso } from '../answer.ts'
import { acceptedSchema, decisionSchema } from '../answer-schema.ts'
import type { Offer } from '../draft.ts'
import { createDraftReader } from '../draft-checks.ts'
import { type Answer, type Idempotency, type Keep, readKey } from '../idempotency.ts'
import { jsonType, problemBody, problemType } from '../problem.ts'
import { basePath, type Route } from '../route.ts'
import { type NotificationBody, notificationBody } from '../schema.ts'
import { aheadOf, decisionInWallTime, inWallTime } from '../wall-time.ts'

export interface NotificationRoutesOptions {
  readonly gate: Pick<Gate, 'admit' | 'preview'>
  readonly recipients: Pick<Recipients, 'find' | 'forget'>
  readonly offer: Offer
  readonly idempotency: Idempotency
  readonly clock: Clock
  readonly overLimitStatus: 429 | 202
  /** Called with the duration of a request that accepted a notification, ms. */
  readonly onAccepted: (tookMs: number) => void
}

export function notificationRoutes(options: NotificationRoutesOptions): readonly Route[] {
  const { gate, recipients, offer, idempotency, clock, overLimitStatus, onAccepted } = options

  const read = createDraftReader({ recipients, offer, clock })
  const readDraft = ({ body, caller, received }: FastifyRequest): Draft | Promise<Draft> =>
    read(body as NotificationBody, caller.tenant, received?.length ?? 0)

  const answerTo = (result: Admitted, requestId: string): Answer =>
    admittedAnswer(result, { overLimitStatus, now: clock.now(), aheadMs: aheadOf(clock), requestId })

  async function accept(request: FastifyRequest, keep: Keep | undefined): Promise<Answer> {
    const { caller } = request
    const drafts = [await readDraft(request)]
    if (keep === undefined) {
      const [result] = await gate.admit({ caller, drafts })
      return answerTo(result!, request.id)
    }
    // The stored answer is the sent answer, to the letter: a commit that is tried again makes it anew.
    let answer: Answer | undefined
    const [result] = await gate.admit({
      caller,
      drafts,
      answer: ([result]) => {
        answer = answerTo(result!, request.id)
        return keep(answer)
      },
    })
    return answer ?? answerTo(result!, request.id)
  }

  return [
    {
      method: 'POST',
      path: `${basePath}/notifications`,
      audited: false,
      operation: 'sendNotification',
      tag: 'Notifications',
      summary: 'Accept one notification',
      access: 'caller',
      body: notificationBody,
      bodyApart: true,
      answers: {
        202: {
          description: 'Accepted and on disk',
          schema: acceptedSchema,
          links: ['getNotification', 'cancelNotification'].map((operation) => ({
            operation,
            id: '/notificationId',
          })),
        },
      },
      problems: [
        'IDEMPOTENCY_IN_PROGRESS',
        'IDEMPOTENCY_MISMATCH',
        'RATE_LIMIT_EXCEEDED',
        'QUEUE_FULL',
        'STORE_UNAVAILABLE',
        'STATE_UNAVAILABLE',
      ],
      async handle(request, reply) {
        const startedAt = performance.now()
        const answer = await idempotency.once(request, (keep) => accept(request, keep))
        onAccepted(performance.now() - startedAt)
        return headed(reply, answer, clock.now() + aheadOf(clock))
      },
    },
    {
      method: 'POST',
      path: `${basePath}/decisions`,
      audited: false,
      operation: 'previewDecision',
      tag: 'Notifications',
      summary: 'The decision that a notification would get now; consumes nothing',
      access: 'caller',
      counts: 'writes',
      body: notificationBody,
      bodyApart: true,
      answers: { 200: { description: 'The decision', schema: decisionSchema } },
      problems: ['STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(request) {
        const key = request.headers['idempotency-key']
        if (key !== undefined) readKey(key)
        const asked = await readDraft(request)
        const { draft, decision } = await gate.preview(request.caller, asked)
        return {
          ...decisionAnswer(decisionInWallTime(decision, aheadOf(clock))),
          channel: draft.channel === asked.channel ? undefined : draft.channel,
        }
      },
    },
  ]
}

/** Returns 202, or 429 for a notification that was queued behind a limit of its tenant or module. */
function admittedAnswer(
  result: Admitted,
  {
    overLimitStatus,
    now,
    aheadMs,
    requestId,
  }: {
    readonly overLimitStatus: 429 | 202
    readonly now: number
    readonly aheadMs: number
    readonly requestId: string
  },
): Answer {
  const { notification, queuedBehind } = result
  if (queuedBehind === undefined || overLimitStatus === 202) {
    return { status: 202, body: acceptedText(inWallTime(notification, aheadMs)) }
  }
  const sendAt = notification.decision.at ?? notification.dueAt
  const who = queuedBehind === 'tenant' ? 'Tenant' : 'Module'
  const delay = retryAfterSeconds(sendAt - now)
  const error = new SluiceError(
    'RATE_LIMIT_EXCEEDED',
    `${who} rate limit exceeded. Notification queued with ${delay}s delay.`,
  )
  return {
    status: 429,
    body: problemBody(error, { notificationId: notification.id, sendAt: iso(sendAt + aheadMs), requestId }),
  }
}

/**
 * Sets status and headers, and returns the body for the handler to return. An async handler must not return the
 * reply itself, which would be taken for a promise: Fastify then watches the response for its end, 5 % of the
 * CPU of a request.
 */
export function headed(reply: FastifyReply, answer: Answer, wallNow: number): string {
  reply.code(answer.status).header('content-type', answer.status < 400 ? jsonType : problemType)
  if (answer.status === 429) {
    reply.request.problem = 'RATE_LIMIT_EXCEEDED'
    const { sendAt, notificationId } = JSON.parse(answer.body) as { sendAt: string; notificationId: string }
    reply.request.notificationId = notificationId
    reply.header('retry-after', retryAfterSeconds(Date.parse(sendAt) - wallNow))
  }
  if (answer.replayed === true) reply.header('idempotency-replayed', 'true')
  return answer.body
}

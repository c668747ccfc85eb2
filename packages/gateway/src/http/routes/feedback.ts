/** The routes by which callers and the webhooks of providers report what became of notifications. */
import { type Static, Type } from '@sinclair/typebox'
import type { Feedback } from '../../feedback/feedback.ts'
import type { Report } from '../../feedback/report.ts'
import type { Webhooks } from '../../feedback/webhooks.ts'
import { channels } from '../../model.ts'
import { feedbackTypes } from '../../ports/feedback.ts'
import type { Clock } from '../../ports.ts'
import type { Ledger } from '../../stages.ts'
import { type Idempotency, storeBehind } from '../idempotency.ts'
import { feedbackScope } from '../identity.ts'
import { basePath, type Route } from '../route.ts'
import { instant, oneOf, text } from '../schema.ts'
import { parseInstant } from '../syntax.ts'
import { compileCheck, invalidRequest } from '../validation.ts'
import { aheadOf } from '../wall-time.ts'
import { headed } from './notifications.ts'

/** Events of one request at most. */
const eventsMax = 1_000

const feedbackEvent = Type.Object(
  {
    type: oneOf(feedbackTypes),
    notificationId: Type.Optional(text('printable', 256, 'Either this or `providerMessageId`.')),
    providerMessageId: Type.Optional(
      text('printable', 998, 'The provider’s own id of the message, as the timeline shows it.'),
    ),
    at: instant('The instant at which it happened.'),
    permanent: Type.Optional(
      Type.Boolean({ description: 'True for a bounce after which the address reaches nobody.' }),
    ),
    detail: Type.Optional(Type.String({ maxLength: 2_000, description: 'The provider’s own words.' })),
  },
  { additionalProperties: false, $id: 'FeedbackEvent' },
)
type FeedbackBody = Static<typeof feedbackEvent>

const feedbackBody = Type.Union(
  [feedbackEvent, Type.Array(feedbackEvent, { minItems: 1, maxItems: eventsMax })],
  { $id: 'FeedbackRequest', description: 'One event, or a list of them.' },
)

const acceptedFeedback = Type.Object(
  { accepted: Type.Integer({ minimum: 0, description: 'Well-formed events, also of unknown ids.' }) },
  { $id: 'FeedbackAccepted' },
)

const feedbackParams = Type.Object({
  channel: oneOf(channels),
  account: text('printable', 64, 'The id of an account.'),
})

export interface FeedbackRoutesOptions {
  readonly feedback: Pick<Feedback, 'report'>
  readonly ledger: Pick<Ledger, 'commit'>
  readonly idempotency: Idempotency
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
  readonly webhooks: Pick<Webhooks, 'take'>
  /** The public address of the gateway, which some providers sign. @defaultValue the address of the request */
  readonly publicUrl: string | undefined
}

const checkOne = compileCheck(feedbackEvent)
const checkList = compileCheck(feedbackBody.anyOf[1]!)

export function feedbackRoutes(options: FeedbackRoutesOptions): readonly Route[] {
  const { feedback, ledger, idempotency, clock, webhooks, publicUrl } = options
  return [
    {
      method: 'POST',
      path: `${basePath}/feedback`,
      operation: 'reportFeedback',
      tag: 'Feedback',
      summary: 'Report what became of notifications: complaints, bounces, openings, …',
      details:
        'One event or a list of them, about notifications of the caller’s tenant. The same event twice counts once. An event about a notification that is not known yet waits for ten minutes. A complaint or an unsubscribe opts the recipient out of the category and channel; after a permanent bounce the address is invalid.',
      access: 'caller',
      scope: feedbackScope,
      counts: 'writes',
      body: feedbackBody,
      bodyChecked: 'by handler',
      answers: { 202: { description: 'How many events were taken', schema: acceptedFeedback } },
      problems: [
        'IDEMPOTENCY_IN_PROGRESS',
        'IDEMPOTENCY_MISMATCH',
        'REQUEST_LIMIT_EXCEEDED',
        'STORE_UNAVAILABLE',
        'STATE_UNAVAILABLE',
      ],
      async handle(request, reply) {
        const { tenant } = request.caller
        const bodies = readBody(request.body)
        const reports = bodies.map((body) => reportOf(body, aheadOf(clock)))
        const answer = await idempotency.once(request, async (keep) => {
          await feedback.report(reports, { tenant })
          const accepted = { status: 202, body: JSON.stringify({ accepted: reports.length }) }
          if (keep !== undefined) await storeBehind(ledger, keep(accepted))
          return accepted
        })
        return headed(reply, answer, clock.now() + aheadOf(clock))
      },
    },
    {
      method: 'POST',
      path: `${basePath}/feedback/:channel/:account`,
      operation: 'receiveWebhook',
      tag: 'Feedback',
      summary: 'Takes the webhook of a provider, authenticated by its own signature',
      details:
        'The address that an operator gives to a provider, for the account of a pool whose configuration has `feedback`. There is no token: Amazon SNS, SendGrid, Twilio and Mailgun sign their calls, Postmark sends a user and a password. A call that is not authentic, too old or of a foreign topic is 401 and changes nothing; a subscription of SNS is confirmed.',
      access: 'open',
      params: feedbackParams,
      bodyRaw: true,
      answers: { 202: { description: 'How many events were taken', schema: acceptedFeedback } },
      problems: [
        'INVALID_REQUEST',
        'UNAUTHENTICATED',
        'NOT_FOUND',
        'PAYLOAD_TOO_LARGE',
        'STORE_UNAVAILABLE',
        'STATE_UNAVAILABLE',
      ],
      async handle(request, reply) {
        const { channel, account } = request.params as { channel: string; account: string }
        const { headers, url } = request
        const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
        const base = publicUrl ?? `http://${headers.host ?? 'localhost'}`
        const accepted = await webhooks.take(channel, account, { headers, body, url: `${base}${url}` })
        return reply.code(202).send({ accepted })
      },
    },
  ]
}

function readBody(body: unknown): readonly FeedbackBody[] {
  const isList = Array.isArray(body)
  const faults = isList ? checkList(body) : checkOne(body)
  if (faults !== undefined) throw invalidRequest(faults)
  const bodies = (isList ? body : [body]) as readonly FeedbackBody[]
  const nameless = bodies.findIndex(
    ({ notificationId, providerMessageId }) =>
      notificationId === undefined && providerMessageId === undefined,
  )
  if (nameless >= 0)
    throw invalidRequest([
      { path: isList ? `/${nameless}` : '', message: 'must have a notificationId or a providerMessageId' },
    ])
  return bodies
}

function reportOf({ at, ...rest }: FeedbackBody, aheadMs: number): Report {
  const toldAt = parseInstant(at)
  return { ...rest, at: toldAt - aheadMs, toldAt }
}

/** Schemas of the answers, for the published document; the tests check every answer against them. */
import { Type } from '@sinclair/typebox'
import type { Status } from '../model.ts'
import { channels, jobStatuses, priorities, statuses } from '../model.ts'
import { verdicts } from './explanation.ts'
import { oneOf } from './schema.ts'

const moment = Type.String({ format: 'date-time' })
const momentOrNull = Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' })
const optionalText = Type.Optional(Type.String())

const ruleSchema = Type.Object({
  limit: Type.String(),
  window: Type.String(),
  used: Type.Integer(),
  max: Type.Integer(),
  remaining: Type.Integer(),
  freesAt: momentOrNull,
  admits: Type.Boolean(),
})

export const decisionSchema = Type.Object(
  {
    outcome: oneOf(['send', 'delay', 'digest', 'fallback', 'suppress']),
    reason: optionalText,
    limit: optionalText,
    at: Type.Optional(moment),
    policyVersion: Type.String(),
    rules: Type.Array(ruleSchema),
    channel: Type.Optional(
      oneOf(channels, 'Of a dry run: the channel that would carry it after a fallback.'),
    ),
  },
  { $id: 'Decision' },
)

export const acceptedSchema = Type.Object(
  {
    notificationId: Type.String(),
    status: oneOf(statuses),
    sendAt: Type.Optional(moment),
    decision: decisionSchema,
  },
  { $id: 'Accepted' },
)

const batchResult = Type.Object({
  recipient: Type.String(),
  notificationId: optionalText,
  status: Type.Optional(oneOf(statuses)),
  sendAt: Type.Optional(momentOrNull),
  decision: Type.Optional(decisionSchema),
  code: optionalText,
  detail: optionalText,
})
const batchResults = Type.Object({ results: Type.Array(batchResult) }, { $id: 'BatchResults' })
const jobOpened = Type.Object({ jobId: Type.String() }, { $id: 'JobOpened' })
export const batchSchema = Type.Union([batchResults, jobOpened], { $id: 'BatchAnswer' })

export const jobSchema = Type.Object(
  {
    jobId: Type.String(),
    status: oneOf(jobStatuses, 'Done when of everybody a notification is decided and accepted, or refused.'),
    total: Type.Integer(),
    counts: Type.Unsafe<Partial<Record<Status, number>>>(
      Type.Object(Object.fromEntries(statuses.map((status) => [status, Type.Optional(Type.Integer())])), {
        description: 'Its notifications by state, as it is now.',
      }),
    ),
    refused: Type.Optional(
      Type.Array(Type.Object({ recipient: Type.String(), code: Type.String(), detail: Type.String() })),
    ),
  },
  { $id: 'Job' },
)

const eventSchema = Type.Object({
  at: moment,
  status: oneOf(statuses),
  reason: optionalText,
  provider: optionalText,
  account: optionalText,
  attempt: Type.Optional(Type.Integer()),
  detail: optionalText,
})

const explanationSchema = Type.Object(
  {
    verdict: oneOf(verdicts),
    reason: optionalText,
    limit: optionalText,
    window: optionalText,
    until: Type.Optional(moment),
    untilIs: Type.Optional(oneOf(['booked', 'estimate'])),
    heldBy: Type.Optional(Type.Array(Type.Object({ notificationId: Type.String(), at: moment }))),
    accounts: Type.Optional(
      Type.Object({
        out: Type.Integer(),
        of: Type.Integer(),
        firstBackAt: momentOrNull,
        named: Type.Optional(
          Type.Array(
            Type.Object({
              id: Type.String(),
              status: Type.String(),
              outUntil: momentOrNull,
              outBecause: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
            }),
            { description: 'For operators: the accounts that are out, five at most.' },
          ),
        ),
      }),
    ),
    returnsByItself: Type.Optional(Type.Boolean()),
    latenessMs: Type.Optional(Type.Number()),
    next: Type.Array(oneOf(['cancel', 'redrive'])),
    text: Type.String({ description: 'All of it in one sentence.' }),
  },
  { $id: 'Explanation' },
)

export const notificationSchema = Type.Object(
  {
    notificationId: Type.String(),
    tenant: Type.String(),
    module: Type.String(),
    jobId: optionalText,
    recipient: Type.String(),
    channel: oneOf(channels),
    requestedChannel: Type.Optional(oneOf(channels)),
    category: Type.String(),
    template: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
    priority: oneOf(priorities),
    actor: optionalText,
    status: oneOf(statuses),
    sendAt: momentOrNull,
    createdAt: moment,
    expiresAt: momentOrNull,
    decision: decisionSchema,
    digestId: optionalText,
    timeline: Type.Array(eventSchema),
    explanation: Type.Optional(explanationSchema),
  },
  { $id: 'Notification' },
)

export const notificationPage = Type.Object(
  {
    items: Type.Array(notificationSchema),
    nextCursor: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  },
  { $id: 'NotificationPage' },
)

const recordSchema = Type.Object(
  {
    tenant: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'The tenant that the record names; null where none can be read.',
    }),
    status: oneOf(['dead']),
    record: Type.Object({
      topic: Type.String(),
      partition: Type.Integer(),
      offset: Type.Integer(),
      size: Type.Integer({ description: 'Bytes of the whole record.' }),
      bytes: Type.String({ description: 'The first 64 KiB of it, in base64.' }),
    }),
    timeline: Type.Array(eventSchema),
  },
  { $id: 'DeadRecord', description: 'A record of a topic that could not be accepted.' },
)

export const deadLetterPage = Type.Object(
  {
    items: Type.Array(Type.Union([notificationSchema, recordSchema])),
    nextCursor: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  },
  { $id: 'DeadLetterPage' },
)

export const limitsSchema = Type.Object(
  {
    limits: Type.Array(
      Type.Object({
        limit: Type.String(),
        window: Type.String(),
        used: Type.Integer(),
        max: Type.Integer(),
        remaining: Type.Integer(),
        reserved: Type.Integer(),
        freesAt: momentOrNull,
      }),
    ),
  },
  { $id: 'RecipientLimits' },
)

export const redriveSchema = Type.Object(
  {
    redriven: Type.Integer(),
    left: Type.Array(
      Type.Object({
        notificationId: Type.String(),
        why: oneOf(['not_dead', 'expired', 'cancelled', 'queue_full', 'unserved']),
      }),
      {
        description:
          'The letters that stay: the named ones, and those for which their tenant has no room. The table of reasons may ' +
          'grow: `unserved` is a named letter whose channel no pool serves.',
      },
    ),
    more: Type.Optional(Type.Boolean({ description: 'With `limit`: whether further letters fit.' })),
  },
  { $id: 'Redriven' },
)

export const policySchema = Type.Object(
  { version: Type.String(), policy: Type.Unsafe<object>({ type: 'object' }) },
  { $id: 'Policy' },
)

export const policyCheckSchema = Type.Object(
  {
    valid: Type.Boolean(),
    version: optionalText,
    errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
  },
  { $id: 'PolicyCheck' },
)

export const healthSchema = Type.Object({ status: Type.String() }, { $id: 'Health' })

const degraded = Type.Optional(Type.Array(Type.String(), { description: 'What does not work now.' }))

export const readinessSchema = Type.Object({ status: Type.String(), degraded }, { $id: 'Readiness' })

export const problemSchema = Type.Object(
  {
    type: Type.String(),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    code: Type.String(),
    errors: Type.Optional(Type.Array(Type.Object({ path: Type.String(), message: Type.String() }))),
    requestId: Type.Optional(Type.String({ description: 'As in the header X-Request-Id of the answer.' })),
    notificationId: optionalText,
    sendAt: Type.Optional(moment),
    degraded,
  },
  { $id: 'Problem' },
)

/**
 * The schemas of requests. Each schema is the check, the type and the published document at once. Rules across
 * fields (content or template, an address for the channel) are checked in draft.ts.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import type { Content, JsonObject, RecipientFields } from '../model.ts'
import { channels, deadCauses, priorities, statuses } from '../model.ts'
import type { FormName } from './syntax.ts'

const closed = { additionalProperties: false } as const

export const text = (format: FormName, maxLength: number, description?: string) =>
  Type.String({ minLength: 1, maxLength, format, ...(description === undefined ? {} : { description }) })

export const oneOf = <const T extends readonly string[]>(values: T, description?: string) =>
  Type.Unsafe<T[number]>({
    type: 'string',
    enum: [...values],
    ...(description === undefined ? {} : { description }),
  })

export const instant = (description: string) =>
  Type.String({ format: 'date-time' satisfies FormName, maxLength: 40, description })

export const recipientId = text('printable', 256, 'The person, within the tenant.')
export const categoryName = text(
  'category',
  64,
  'What it is about: security, billing, marketing, product, activity, …',
)
export const channelName = oneOf(channels)

const addresses = {
  email: Type.Optional(text('email', 254)),
  phone: Type.Optional(text('phone', 16, 'E.164.')),
  pushToken: Type.Optional(text('printable', 4_096)),
  telegramChatId: Type.Optional(text('printable', 128)),
  slackChannel: Type.Optional(text('printable', 256)),
  webhookUrl: Type.Optional(text('web-url', 2_048)),
  timeZone: Type.Optional(text('time-zone', 64, 'IANA name.')),
  locale: Type.Optional(text('locale', 64, 'BCP 47.')),
}

/** An object of these fields, or its id alone as a string. */
function idOrObject<T>(fields: Record<string, TSchema>) {
  return Type.Unsafe<T | string>({
    type: ['string', 'object'],
    minLength: 1,
    maxLength: 256,
    format: 'printable' satisfies FormName,
    properties: { id: recipientId, ...fields },
    required: ['id'],
    ...closed,
    description: 'The person and their addresses, or the id alone where the addresses are stored.',
  })
}

const data = Type.Unsafe<JsonObject>({
  type: 'object',
  description: 'What the template shows. At most 64 KiB as JSON and 32 levels deep.',
})

/** Without a length of its own: what the body may have bounds it, and of a batch that times the recipients. */
const contentText = Type.String({ minLength: 1 })

const contentSchema = Type.Unsafe<Content>(
  Type.Object(
    {
      subject: Type.Optional(text('one-line', 998)),
      title: Type.Optional(text('one-line', 998)),
      text: Type.Optional(contentText),
      html: Type.Optional(contentText),
    },
    { ...closed, minProperties: 1 },
  ),
)

const message = {
  channel: channelName,
  category: Type.Optional(categoryName),
  priority: Type.Optional(
    oneOf(priorities, 'Default normal. Critical passes all limits but a wide one of its own.'),
  ),
  template: Type.Optional(text('printable', 128, 'Either this, with `data`, or `content`.')),
  data: Type.Optional(data),
  content: Type.Optional(contentSchema),
  actor: Type.Optional(text('printable', 256, 'Who caused it: the author whose follower is notified.')),
  sendAt: Type.Optional(instant('Not before this instant.')),
  expiresAt: Type.Optional(instant('Of no use from this instant on; it is not sent later.')),
}

export const notificationBody = Type.Object(
  { recipient: idOrObject<RecipientFields>(addresses), ...message },
  { ...closed, $id: 'NotificationRequest' },
)
export type NotificationBody = Static<typeof notificationBody>

export type BatchRecipient = RecipientFields & { readonly data?: JsonObject }

/** Recipients of one batch at most. */
export const recipientsMax = 500

export const batchBody = Type.Object(
  {
    recipients: Type.Array(idOrObject<BatchRecipient>({ ...addresses, data: Type.Optional(data) }), {
      minItems: 1,
      maxItems: recipientsMax,
      description:
        "Above 100 they are accepted in the background. The keys of a recipient's own `data` go before those of the common one.",
    }),
    ...message,
  },
  { ...closed, $id: 'BatchRequest' },
)
export type BatchBody = Static<typeof batchBody>

const quietWindow = Type.Object({ from: text('wall-time', 5), to: text('wall-time', 5) }, closed)

const preferences = {
  ...addresses,
  quietHours: Type.Optional(
    Type.Object(
      Object.fromEntries(['default', ...channels].map((name) => [name, Type.Optional(quietWindow)])),
      {
        ...closed,
        description:
          'In the time zone of the person, by channel or `default`. Quiet from `from` until before `to`.',
      },
    ),
  ),
  optOuts: Type.Optional(
    Type.Array(
      Type.Object({ category: Type.Optional(categoryName), channel: Type.Optional(channelName) }, closed),
      { maxItems: 500, description: 'Without a category: all of them; without a channel: all of them.' },
    ),
  ),
}

export const recipientBody = Type.Object(
  { id: Type.Optional(recipientId), ...preferences },
  { ...closed, $id: 'RecipientRequest' },
)

/** RFC 7396; the patched recipient is checked against `recipientBody`. */
export const recipientPatch = Type.Unsafe<JsonObject>({
  type: 'object',
  $id: 'RecipientPatch',
  description: 'JSON merge patch (RFC 7396) of a recipient: null removes a field.',
})

export const recipientAnswer = Type.Object(
  {
    id: recipientId,
    ...preferences,
    invalid: Type.Optional(
      Type.Array(
        Type.Object({
          channel: channelName,
          at: instant('The instant of the bounce.'),
          detail: Type.Optional(Type.String()),
        }),
        {
          description:
            'Channels whose address reaches nobody, as a permanent bounce tells. Only a different address lifts it.',
        },
      ),
    ),
  },
  { $id: 'Recipient' },
)

// ---- paths and queries; they carry text, so numbers are parsed

export const idParams = Type.Object({ id: Type.String({ minLength: 1, maxLength: 256 }) })
export const tokenParams = Type.Object({ token: Type.String({ minLength: 1, maxLength: 4_096 }) })
export const recipientParams = Type.Object({ id: recipientId })

const paging = {
  cursor: Type.Optional(
    Type.String({ minLength: 1, maxLength: 512, description: '`nextCursor` of the page before.' }),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
}

const statusFilter = Type.Optional(
  Type.String({
    pattern: `^(?:${statuses.join('|')})(?:,(?:${statuses.join('|')}))*$`,
    description: 'One state or several, separated by commas.',
  }),
)

export const explainQuery = Type.Object(
  { explain: Type.Optional(Type.Boolean({ description: 'Adds `explanation`.' })) },
  closed,
)
export type ExplainQuery = Static<typeof explainQuery>

export const pageQuery = Type.Object(paging, closed)
export const listQuery = Type.Object(
  {
    recipient: Type.Optional(recipientId),
    status: statusFilter,
    category: Type.Optional(categoryName),
    channel: Type.Optional(channelName),
    job: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, description: 'Of this batch in the background.' }),
    ),
    from: Type.Optional(instant('Created at this instant or later.')),
    to: Type.Optional(instant('Created before this instant.')),
    module: Type.Optional(text('printable', 256, 'Sent by this module.')),
    priority: Type.Optional(oneOf(priorities)),
    template: Type.Optional(text('printable', 256)),
    actor: Type.Optional(text('printable', 256)),
    reason: Type.Optional(
      Type.String({
        pattern: '^[a-z_]{1,40}$',
        description: 'The reason of its newest change of state, or of its decision where that has none.',
      }),
    ),
    limitName: Type.Optional(text('printable', 256, 'The limit of the policy that its decision names.')),
    idempotencyKey: Type.Optional(
      text('printable', 255, 'Accepted under this Idempotency-Key, by `module` or the own module.'),
    ),
    tenant: Type.Optional(text('printable', 256, "Another tenant's, for operators.")),
    order: Type.Optional(
      oneOf(
        ['newest', 'sendAt'],
        'sendAt: what is scheduled, queued or sending, the first to leave first; a page may be empty before the end. Default newest.',
      ),
    ),
    ...paging,
  },
  closed,
)
export type ListFilter = Static<typeof listQuery>

const deadFilter = {
  cause: Type.Optional(oneOf(deadCauses)),
  channel: Type.Optional(channelName),
  tenant: Type.Optional(text('printable', 256)),
}
export const deadLetterQuery = Type.Object({ ...deadFilter, ...paging }, closed)
export type DeadLetterFilter = Static<typeof deadLetterQuery>

export const redriveBody = Type.Object(
  {
    ...deadFilter,
    causes: Type.Optional(
      Type.Array(oneOf(deadCauses), {
        minItems: 1,
        maxItems: deadCauses.length,
        description: 'Letters with any of these causes.',
      }),
    ),
    ids: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 64 }), { minItems: 1, maxItems: 1_000 }),
    ),
    all: Type.Optional(Type.Boolean({ description: 'Everything that fits, calls of unknown outcome too.' })),
    dryRun: Type.Optional(Type.Boolean({ description: 'Only counts. Default false.' })),
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000,
        description: 'The oldest letters, at most so many. Default all.',
      }),
    ),
  },
  {
    ...closed,
    $id: 'RedriveRequest',
    description:
      'A filter, `ids` or `all`; without any of them the request is refused. Letters with the cause `outcome_unknown`, which may have arrived, are taken only where `cause`, `causes`, `ids` or `all` names them.',
  },
)
export type RedriveBody = Static<typeof redriveBody>

export const eventsQuery = Type.Object(
  {
    tenant: Type.Optional(text('printable', 256)),
    notification: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, description: 'Changes of this notification only.' }),
    ),
    recipient: Type.Optional(recipientId),
  },
  closed,
)
export type EventsQuery = Static<typeof eventsQuery>

export const policyBody = Type.Unsafe<JsonObject>({
  type: 'object',
  $id: 'PolicyRequest',
  description: 'A policy file as JSON.',
})

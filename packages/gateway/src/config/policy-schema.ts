/**
 * The form of a policy file as a JSON Schema, for editors (schema/policy.json). policy/compile.ts checks the
 * meaning of a policy; a test keeps the two in agreement.
 */
import { Type } from '@sinclair/typebox'
import { channels, priorities } from '../model.ts'
import { perFields } from '../policy/selector.ts'

const closed = { additionalProperties: false } as const
const units = '(ms|s|min|h|d|day|week|month)'
const windowText = `\\s*\\d+\\s*/\\s*\\d*\\s*${units}\\s*`

const name = Type.String({ minLength: 1, maxLength: 256 })
const duration = Type.String({
  pattern: `^\\s*\\d+\\s*${units}\\s*$`,
  description: 'Such as 300ms, 60min, 4h or 7d.',
})
const wallTime = Type.String({ pattern: '^([01]\\d|2[0-3]):[0-5]\\d$', description: 'HH:MM, in quotes.' })
const channel = Type.Union(
  channels.map((each) => Type.Literal(each)),
  { define: 'channel' },
)
const priority = Type.Union(priorities.map((each) => Type.Literal(each)))

function oneOrMore<Schema extends ReturnType<typeof Type.Union> | typeof name>(schema: Schema) {
  return Type.Union([schema, Type.Array(schema, { minItems: 1 })])
}

const windows = Type.Union(
  [
    Type.String({ pattern: `^(unlimited|${windowText}(,${windowText})*)$` }),
    Type.Array(Type.String({ pattern: `^${windowText}$` }), { minItems: 1 }),
  ],
  {
    define: 'windows',
    description: 'Such as 2/day, or [2/day, 5/week]: rolling windows, all of which hold.',
  },
)

const fields = {
  channel: Type.Optional(oneOrMore(channel)),
  category: Type.Optional(oneOrMore(name)),
  template: Type.Optional(oneOrMore(name)),
  module: Type.Optional(oneOrMore(name)),
  priority: Type.Optional(oneOrMore(priority)),
}
const selected = Type.Object(fields, { ...closed, minProperties: 1 })

const limitSchema = Type.Object(
  {
    name,
    for: Type.Union([Type.Literal('any'), Type.Literal('otherwise'), selected], {
      description: 'What it counts; `otherwise` is what no limit names that names a category or channel.',
    }),
    per: Type.Optional(
      Type.Union(
        [
          Type.Union(perFields.map((field) => Type.Literal(field))),
          Type.Array(Type.Union(perFields.map((field) => Type.Literal(field))), { minItems: 1 }),
        ],
        {
          description: 'Whose count. Default recipient.',
        },
      ),
    ),
    max: Type.Optional(windows),
    minGap: Type.Optional(duration),
    over: Type.Optional(
      Type.String({
        pattern: `^(delay|drop|digest:.+|fallback:\\s*(${channels.join('|')})\\s*)$`,
        description:
          'What follows above it: delay, drop, digest:<name> or fallback:<channel>. Default delay.',
      }),
    ),
    countRefused: Type.Optional(
      Type.Boolean({ description: 'Whether what is dropped counts too. Default false.' }),
    ),
  },
  { ...closed, anyOf: [{ required: ['max'] }, { required: ['minGap'] }] },
)

const digestSchema = Type.Object(
  {
    name,
    for: Type.Union([Type.Literal('any'), selected]),
    window: duration,
    minItems: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 10_000,
        description: 'Below it each item is sent on its own. Default 2.',
      }),
    ),
    maxItems: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 10_000,
        description: 'Above it items are counted, not shown. Default 100.',
      }),
    ),
    template: name,
  },
  closed,
)

const quietSchema = Type.Object(
  {
    default: Type.Optional(
      Type.Object(
        {
          from: wallTime,
          to: wallTime,
          channels: Type.Optional(oneOrMore(channel)),
          except: Type.Optional(Type.Union([name, Type.Array(name)])),
        },
        { ...closed, description: 'For people without quiet hours of their own.' },
      ),
    ),
    legal: Type.Optional(
      Type.Array(
        Type.Object(
          {
            channel: Type.Optional(oneOrMore(channel)),
            category: Type.Optional(oneOrMore(name)),
            allowed: Type.String({
              pattern: '^\\s*\\d\\d:\\d\\d\\s*-\\s*\\d\\d:\\d\\d\\s*$',
              description: 'Such as "08:00-21:00".',
            }),
          },
          closed,
        ),
        { description: 'Hours in which alone something may be sent, whatever else is said.' },
      ),
    ),
    unknownTimeZone: Type.Optional(
      Type.String({ description: 'For people whose time zone is not known. Default UTC.' }),
    ),
    spread: Type.Optional(duration),
  },
  closed,
)

const share = Type.Union(
  [
    Type.String({ pattern: '^\\s*\\d+(\\.\\d+)?\\s*%\\s*$' }),
    Type.Number({ exclusiveMinimum: 0, maximum: 1 }),
  ],
  { description: 'Such as 0.05%, or a number up to 1.' },
)

const complaintsSchema = Type.Object(
  {
    warnAt: Type.Optional(share),
    pauseAt: Type.Optional(share),
    window: Type.Optional(duration),
    minimumDelivered: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1_000_000_000,
        description: 'Fewer deliveries in the window are not judged. Default 1000.',
      }),
    ),
    categories: Type.Optional(oneOrMore(name)),
  },
  {
    ...closed,
    description:
      'Slows a category of a tenant whose complaints reach warnAt (default 0.05%) and pauses it at pauseAt (0.1%), over a window (7d). Default for categories: [marketing].',
  },
)

export const policySchema = Type.Object(
  {
    version: Type.Optional(Type.Literal(1)),
    name: Type.Optional(
      Type.String({ minLength: 1, maxLength: 256, description: 'Its name in the reports of replays.' }),
    ),
    limits: Type.Optional(Type.Array(limitSchema)),
    digests: Type.Optional(Type.Array(digestSchema)),
    deduplication: Type.Optional(Type.Object({ window: duration }, closed)),
    quietHours: Type.Optional(quietSchema),
    critical: Type.Optional(
      Type.Object(
        {
          max: Type.Optional(windows),
          minGap: Type.Optional(duration),
          over: Type.Optional(Type.Union([Type.Literal('delay'), Type.Literal('drop')])),
        },
        {
          ...closed,
          anyOf: [{ required: ['max'] }, { required: ['minGap'] }],
          description: 'The one limit, by recipient, that what is critical does not pass.',
        },
      ),
    ),
    complaints: Type.Optional(complaintsSchema),
    onStateLost: Type.Optional(
      Type.Record(
        Type.String(),
        Type.Union([Type.Literal('hold'), Type.Literal('share'), Type.Literal('refuse')]),
        {
          description:
            'By category or default: while the server of the limits (state) does not answer. Default hold.',
        },
      ),
    ),
    maxDelay: Type.Optional(duration),
  },
  {
    ...closed,
    $id: 'urn:sluice:schema:policy',
    title: 'Policy of Sluice',
    description: 'Replaces the built-in policy as a whole; a section that is missing is off.',
  },
)

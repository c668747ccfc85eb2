/** Schemas of pools, accounts and holds: what operators ask and are answered. */
import { type Static, Type } from '@sinclair/typebox'
import { channels } from '../model.ts'
import type { OutBecause } from '../stages.ts'
import { channelFilter, momentOrNull } from './operator-schema.ts'
import { categoryName, channelName, instant, oneOf, text } from './schema.ts'

const moment = Type.String({ format: 'date-time' })
const numberOrNull = Type.Unsafe<number | null>({ type: ['number', 'null'] })

const accountFields = {
  id: Type.String(),
  rate: Type.String(),
  used: Type.Integer({ description: 'Calls in the narrowest window.' }),
  status: oneOf(['healthy', 'blocked', 'open', 'half_open', 'held']),
  blockedUntil: momentOrNull,
  outSince: momentOrNull,
  outUntil: momentOrNull,
  outBecause: Type.Unsafe<OutBecause | null>({
    type: ['string', 'null'],
    enum: ['rate_limited', 'breaker', 'hold', null],
  }),
  retryAfter: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    description: 'Of the block, as received; null after a restart.',
  }),
  learnedRate: numberOrNull,
  concurrency: Type.Number({ description: 'Calls at once, at most.' }),
  inFlight: Type.Integer(),
  windows: Type.Array(
    Type.Object({
      window: Type.String(),
      marginMs: Type.Number({ description: 'The window is kept this much longer than written.' }),
      used: Type.Integer(),
      max: Type.Integer(),
      freesAt: Type.Unsafe<string | null>({ ...momentOrNull, description: 'Null while it has a place.' }),
    }),
  ),
  p50Ms: numberOrNull,
  p99Ms: Type.Unsafe<number | null>({
    ...numberOrNull,
    description: 'Of the calls of the last one to two minutes.',
  }),
  perMinute: Type.Object(
    { delivered: Type.Integer(), failed: Type.Integer(), rateLimited: Type.Integer() },
    { description: 'Calls that ended within the last minute.' },
  ),
}

const poolFields = {
  channel: oneOf(channels),
  provider: Type.String(),
  rate: Type.String(),
  carries: Type.Unsafe<number | null>({
    ...numberOrNull,
    description: 'Calls per second of the accounts that are in; null where one has no limit.',
  }),
  admits: Type.Unsafe<number | null>({
    ...numberOrNull,
    description: 'Calls per second that load shedding lets through; null where nothing bounds them.',
  }),
  waiting: Type.Integer({ description: 'Due notifications of the channel that wait for an account.' }),
  retryBudget: Type.Integer({ description: 'Retries that may be made now.' }),
}

export const poolsSchema = Type.Object(
  { pools: Type.Array(Type.Object({ ...poolFields, accounts: Type.Array(Type.Object(accountFields)) })) },
  { $id: 'Pools' },
)

export const accountSchema = Type.Object(
  {
    ...accountFields,
    channel: oneOf(channels),
    provider: Type.String(),
    changes: Type.Array(
      Type.Object({
        at: moment,
        change: oneOf(['blocked', 'opened', 'closed', 'resized', 'held', 'released']),
        until: Type.Optional(moment),
        detail: Type.Optional(Type.String()),
      }),
      { description: 'The last 200, newest first, since the start of the process.' },
    ),
    minutes: Type.Array(
      Type.Object({
        at: moment,
        delivered: Type.Integer(),
        failed: Type.Integer(),
        rateLimited: Type.Integer(),
      }),
      { description: 'The minutes of the last hour in which calls ended, oldest first.' },
    ),
  },
  { $id: 'Account' },
)

export const poolsQuery = Type.Object(
  {
    channel: channelFilter,
    status: Type.Optional(
      oneOf(['healthy', 'blocked', 'open', 'half_open', 'held', 'out'], 'out: every status but healthy.'),
    ),
  },
  { additionalProperties: false },
)
export type PoolsParams = Static<typeof poolsQuery>

/** An account: its channel, and its id there. */
export const accountParams = Type.Object(
  { channel: text('printable', 64), account: text('printable', 256) },
  { additionalProperties: false },
)
export type AccountParams = Static<typeof accountParams>

const until = instant('The end of the hold, at most 31 days ahead.')
const reason = text('one-line', 256, 'Why, in the words of the operator: shown wherever the hold is.')

export const accountHoldBody = Type.Object(
  { until, reason },
  { $id: 'AccountHold', additionalProperties: false },
)
export type AccountHoldBody = Static<typeof accountHoldBody>

export const holdParams = Type.Object({ name: text('category', 64) }, { additionalProperties: false })
export type HoldParams = Static<typeof holdParams>

export const holdBody = Type.Object(
  {
    tenant: Type.Optional(text('printable', 256, 'Only the notifications of this tenant.')),
    channel: Type.Optional(channelName),
    category: Type.Optional(categoryName),
    until,
    reason,
  },
  { $id: 'NotificationHold', additionalProperties: false },
)
export type HoldBody = Static<typeof holdBody>

export const holdSchema = Type.Object(
  {
    name: Type.String({ description: 'As in the path; `<channel>/<account>` for an account.' }),
    account: Type.Optional(
      Type.String({ description: 'The account that is out; absent where notifications are.' }),
    ),
    tenant: Type.Optional(Type.String()),
    channel: Type.Optional(oneOf(channels)),
    category: Type.Optional(Type.String()),
    since: moment,
    until: moment,
    reason: Type.String(),
  },
  { $id: 'Hold' },
)

export const holdsSchema = Type.Object(
  { items: Type.Array(holdSchema), nextCursor: Type.Null() },
  { $id: 'Holds' },
)

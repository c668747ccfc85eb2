/** Schemas of pools, accounts and holds: what operators ask and are answered. */
import { type Static, Type } from '@sinclair/typebox'
import { channels } from '../model.ts'
import type { OutBecause } from '../stages.ts'
import { channelFilter, momentOrNull } from './operator-schema.ts'
import { categoryName, channelName, instant, oneOf, text } from './schema.ts'

const moment = Type.String({ format: 'date-time' })
const numberOrNull = Type.Unsafe<number | null>({ type: ['number', 'null'] })

export const poolsSchema = Type.Object(
  {
    pools: Type.Array(
      Type.Object({
        channel: oneOf(channels),
        provider: Type.String(),
        rate: Type.String(),
        accounts: Type.Array(
          Type.Object({
            id: Type.String(),
            rate: Type.String(),
            used: Type.Integer(),
            status: oneOf(['healthy', 'blocked', 'open', 'half_open', 'held']),
            blockedUntil: momentOrNull,
            outUntil: momentOrNull,
            outBecause: Type.Unsafe<OutBecause | null>({
              type: ['string', 'null'],
              enum: ['rate_limited', 'breaker', 'hold', null],
            }),
            learnedRate: numberOrNull,
            concurrency: Type.Number(),
          }),
        ),
      }),
    ),
  },
  { $id: 'Pools' },
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

/** Schemas of the answers to operators; the tests check every answer against them. */
import { type Static, Type } from '@sinclair/typebox'
import { backlogKeys } from '../backlog-cell.ts'
import { notificationSchema } from './answer-schema.ts'
import { seriesNames } from './overview-series.ts'
import { channelName, instant, oneOf, recipientId, text } from './schema.ts'

const moment = Type.String({ format: 'date-time' })
export const momentOrNull = Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time' })

export const whoamiSchema = Type.Object(
  {
    tenant: Type.String(),
    module: Type.String(),
    scopes: Type.Array(Type.String()),
    expiresAt: momentOrNull,
    authentication: oneOf(['jwt', 'none']),
    version: Type.String(),
    policyVersion: Type.String(),
    startedAt: moment,
    features: Type.Array(Type.String()),
  },
  { $id: 'Caller' },
)

export const policyUseQuery = Type.Object(
  { period: Type.Optional(oneOf(['1h', '1d', '7d'], 'Whole hours up to now. Default 1h.')) },
  { additionalProperties: false },
)
export type PolicyUseParams = Static<typeof policyUseQuery>

export const policyUseSchema = Type.Object(
  {
    at: moment,
    from: moment,
    period: oneOf(['1h', '1d', '7d']),
    policyVersion: Type.String(),
    windows: Type.Array(
      Type.Object({
        limit: Type.String(),
        window: Type.String(),
        admitted: Type.Integer({ description: 'The window had room.' }),
        delayed: Type.Integer(),
        dropped: Type.Integer(),
        digested: Type.Integer(),
        fellBack: Type.Integer(),
        recipientsFull: Type.Integer({
          description: 'Different recipients for whom it was full: an estimate.',
        }),
      }),
    ),
  },
  { $id: 'PolicyUse' },
)

const tenantFilter = Type.Optional(text('printable', 256, 'For operators; others see their own tenant.'))
export const channelFilter = Type.Optional(channelName)

export const backlogQuery = Type.Object(
  {
    by: Type.Optional(oneOf(backlogKeys, 'How to group. Default reason.')),
    tenant: tenantFilter,
    channel: channelFilter,
    reason: Type.Optional(
      Type.String({ pattern: '^[a-z_]{1,32}$', description: 'Only what waits for this reason.' }),
    ),
  },
  { additionalProperties: false },
)
export type BacklogParams = Static<typeof backlogQuery>

export const backlogSchema = Type.Object(
  {
    at: moment,
    groups: Type.Array(
      Type.Object({
        key: Type.String({
          description:
            '`provider_capacity`: due, and waits for an account. `state_unavailable`: undecided, while the server of the limits is away. `other`: the rest.',
        }),
        count: Type.Integer(),
        oldestDueAt: momentOrNull,
        nextAt: momentOrNull,
        lastAt: momentOrNull,
        emptyAt: momentOrNull,
        emptyIs: oneOf(
          ['booked', 'estimate', 'never'],
          'booked: exact to the second. estimate: it depends on others. never: nothing carries it now, because no account of its channel does or the server of the limits is away.',
        ),
        leaving: Type.Object(
          {
            '1m': Type.Integer(),
            '10m': Type.Integer(),
            '1h': Type.Integer(),
            '1d': Type.Integer(),
            later: Type.Integer(),
          },
          { description: 'How many leave within a minute, then within ten, and so on; together the count.' },
        ),
      }),
    ),
    departures: Type.Object(
      { stepMs: Type.Integer(), from: moment, counts: Type.Array(Type.Integer()) },
      { description: 'Booked departures by minute, for a day.' },
    ),
  },
  { $id: 'Backlog' },
)

export const overviewQuery = Type.Object(
  {
    tenant: tenantFilter,
    step: Type.Optional(
      oneOf(['second', 'minute'], 'Of the series: an hour of seconds, or a day of minutes.'),
    ),
  },
  { additionalProperties: false },
)
export type OverviewParams = Static<typeof overviewQuery>

const countsByName = Type.Record(Type.String(), Type.Integer())
const numberOrNull = Type.Unsafe<number | null>({ type: ['number', 'null'] })
const numbers = Type.Array(Type.Number())
const series = Object.fromEntries(seriesNames.map((name) => [name, numbers]))

export const overviewSchema = Type.Object(
  {
    at: moment,
    waiting: Type.Object({ byReason: countsByName }),
    dueNow: Type.Integer(),
    oldestDueMs: Type.Number(),
    deadLetters: Type.Object({ byCause: countsByName }),
    complaints: Type.Array(
      Type.Object({
        tenant: Type.String(),
        category: Type.String(),
        stage: oneOf(['slowed', 'paused']),
        delivered: Type.Integer(),
        complained: Type.Integer(),
        bound: Type.Number({ description: 'The lower bound of the rate of complaints, from 0 to 1.' }),
        share: Type.Number({ description: 'The share of its departures that is left: 0 in a pause.' }),
        since: momentOrNull,
        until: momentOrNull,
      }),
      { description: 'Categories that complaints slow or pause: at most 100, the highest rates first.' },
    ),
    rates: Type.Optional(
      Type.Object(
        {
          accepted: Type.Number(),
          delivered: Type.Number(),
          suppressed: Type.Number(),
          rateLimited: Type.Number(),
          requests4xx: Type.Number(),
          requests5xx: Type.Number(),
        },
        { description: 'Per second, over the last minute.' },
      ),
    ),
    latency: Type.Optional(
      Type.Object({
        acceptP50Ms: numberOrNull,
        acceptP99Ms: numberOrNull,
        latenessP50Ms: numberOrNull,
        latenessP99Ms: numberOrNull,
      }),
    ),
    accounts: Type.Optional(
      Type.Object({
        healthy: Type.Integer(),
        blocked: Type.Integer(),
        open: Type.Integer(),
        half_open: Type.Integer(),
        held: Type.Integer(),
      }),
    ),
    unaccounted: Type.Optional(Type.Integer()),
    store: Type.Optional(
      Type.Object(
        { bytes: numberOrNull, freeBytes: numberOrNull, commitP99Ms: numberOrNull },
        { description: 'Sizes of the embedded store and of its disk, and the commits of the last minute.' },
      ),
    ),
    cause: Type.Optional(
      Type.Object(
        { side: oneOf(['neither', 'us', 'them']), text: Type.String() },
        { description: 'Whether a trouble is the gateway’s own or a provider’s, in a sentence.' },
      ),
    ),
    problems: Type.Optional(
      Type.Array(
        Type.Object({
          code: Type.String(),
          severity: oneOf(['page', 'ticket']),
          channel: Type.Optional(Type.String()),
          provider: Type.Optional(Type.String()),
          since: Type.Unsafe<string>({
            ...moment,
            description: 'When it began, or was first noticed by a reading of the overview.',
          }),
          until: Type.Optional(moment),
          count: Type.Optional(Type.Integer()),
          text: Type.String(),
        }),
      ),
    ),
    series: Type.Optional(Type.Object({ stepMs: Type.Integer(), from: moment, ...series })),
  },
  { $id: 'Overview' },
)

export const deadSummaryQuery = Type.Object(
  { tenant: tenantFilter, channel: channelFilter },
  { additionalProperties: false },
)
export type DeadSummaryParams = Static<typeof deadSummaryQuery>

const textOrNull = Type.Unsafe<string | null>({ type: ['string', 'null'] })

export const deadSummarySchema = Type.Object(
  {
    groups: Type.Array(
      Type.Object({
        cause: Type.String(),
        channel: Type.Unsafe<string | null>({
          type: ['string', 'null'],
          description: 'Null for records of topics that could not be accepted.',
        }),
        provider: textOrNull,
        account: textOrNull,
        answer: textOrNull,
        count: Type.Integer(),
        oldestAt: moment,
        returnsByItself: Type.Boolean(),
        example: textOrNull,
      }),
    ),
  },
  { $id: 'DeadLetterSummary' },
)

export const requestsQuery = Type.Object(
  {
    tenant: tenantFilter,
    status: Type.Optional(Type.Integer({ minimum: 400, maximum: 599 })),
    code: Type.Optional(Type.String({ pattern: '^[A-Z_]{1,64}$', description: 'Of the problem.' })),
    recipient: Type.Optional(recipientId),
    from: Type.Optional(instant('At this instant or later.')),
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
  },
  { additionalProperties: false },
)
export type RequestsParams = Static<typeof requestsQuery>

export const requestsSchema = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        requestId: Type.String({ description: 'As in the header X-Request-Id of its answer.' }),
        at: moment,
        tenant: Type.Optional(Type.String()),
        module: Type.Optional(Type.String()),
        method: Type.String(),
        route: Type.String(),
        status: Type.Integer(),
        code: Type.Optional(Type.String()),
        tookMs: Type.Number(),
        bytes: Type.Integer(),
        errors: Type.Array(Type.Object({ path: Type.String(), message: Type.String() })),
        notificationId: Type.Optional(
          Type.String({ description: 'That the request names, or that was queued with a 429.' }),
        ),
        idempotencyKey: Type.Optional(Type.String()),
        recipient: Type.Optional(Type.String()),
      }),
    ),
  },
  { $id: 'RefusedRequests' },
)

export const searchQuery = Type.Object(
  { q: text('printable', 256, 'An exact id, or an idempotency key of the caller’s module.') },
  { additionalProperties: false },
)
export type SearchParams = Static<typeof searchQuery>

export const searchSchema = Type.Object(
  {
    notifications: Type.Array(notificationSchema),
    jobs: Type.Array(Type.Object({ jobId: Type.String(), status: Type.String(), total: Type.Integer() })),
    recipients: Type.Array(Type.Object({ id: Type.String() })),
    keys: Type.Array(
      Type.Object({
        key: Type.String(),
        method: Type.String(),
        path: Type.String(),
        status: Type.Integer(),
        at: moment,
      }),
    ),
    lookedIn: Type.Object({ tenant: Type.String() }),
  },
  { $id: 'SearchResult' },
)

export const windowsQuery = Type.Object(
  {
    from: Type.Optional(instant('Default: a week ago.')),
    to: Type.Optional(instant('Default: a week from now. At most 62 days after `from`.')),
    channel: channelFilter,
    category: Type.Optional(text('category', 64)),
    actor: Type.Optional(text('printable', 256)),
  },
  { additionalProperties: false },
)
export type WindowsParams = Static<typeof windowsQuery>

const interval = { from: moment, to: moment }

export const windowsSchema = Type.Object(
  {
    at: moment,
    timeZone: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
    forbidden: Type.Array(
      Type.Object({ kind: oneOf(['quiet', 'legal']), channel: channelName, ...interval }),
      { description: 'Hours in which nothing is sent; at most 400.' },
    ),
    streams: Type.Array(
      Type.Object({
        limit: Type.String(),
        window: Type.String(),
        windowMs: Type.Integer(),
        marginMs: Type.Number({ description: 'The window is kept this much longer than written.' }),
        max: Type.Integer(),
        minGapMs: Type.Optional(
          Type.Number({
            description: 'The minimum distance of the limit; it has a row of its own, 1 per gap.',
          }),
        ),
        shared: Type.Boolean({ description: 'Other recipients count in it too; then it names no instants.' }),
        full: Type.Array(Type.Object(interval)),
        instants: Type.Array(
          Type.Object({ at: moment, notificationId: Type.String(), state: oneOf(['counted', 'booked']) }),
        ),
      }),
      { description: 'At most 12, of 500 instants each, the newest.' },
    ),
    truncated: Type.Boolean(),
  },
  { $id: 'RecipientWindows' },
)

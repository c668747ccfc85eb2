/** The route of a recipient's windows over time, for a picture. */
import type { Policy } from '../../policy/policy.ts'
import type { Clock, Store } from '../../ports.ts'
import { iso } from '../answer.ts'
import { type WindowsParams, windowsQuery, windowsSchema } from '../operator-schema.ts'
import { admissionsMax, windowsOf } from '../recipient-windows.ts'
import { basePath, type Route } from '../route.ts'
import { recipientParams } from '../schema.ts'
import { parseInstant } from '../syntax.ts'
import { invalidRequest } from '../validation.ts'
import { aheadOf } from '../wall-time.ts'

export interface RecipientWindowsOptions {
  readonly store: Pick<Store, 'recipient' | 'admissions'>
  readonly policy: Pick<Policy, 'rulesFor' | 'quietFor' | 'longestWindowMs' | 'document'>
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
  /** Windows are kept this much longer than written, ms. */
  readonly marginMs: number
}

const weekMs = 7 * 86_400_000
/** The longest picture: two months. */
const spanMaxMs = 62 * 86_400_000

export function recipientWindowsRoutes(options: RecipientWindowsOptions): readonly Route[] {
  const { store, policy, clock, marginMs } = options
  return [
    {
      method: 'GET',
      path: `${basePath}/recipients/:id/windows`,
      operation: 'getRecipientWindows',
      tag: 'Recipients',
      summary: 'The windows of a recipient over time, for a picture',
      access: 'caller',
      counts: 'reads',
      params: recipientParams,
      query: windowsQuery,
      answers: { 200: { description: 'At most 12 streams of 500 instants', schema: windowsSchema } },
      problems: ['STORE_UNAVAILABLE'],
      async handle(request) {
        const { id } = request.params as { id: string }
        const { from, to, ...filter } = request.query as WindowsParams
        const { tenant } = request.caller
        const aheadMs = aheadOf(clock)
        const now = clock.now() + aheadMs
        const query = {
          ...filter,
          from: from === undefined ? now - weekMs : parseInstant(from),
          to: to === undefined ? now + weekMs : parseInstant(to),
        }
        if (query.to <= query.from || query.to - query.from > spanMaxMs)
          throw invalidRequest([{ path: '/to', message: 'must be after from, by at most 62 days' }])
        const since = query.from - aheadMs - policy.longestWindowMs
        const [stored, met] = await Promise.all([
          store.recipient(tenant, id),
          store.admissions({ tenant, recipient: id, since, limit: admissionsMax }),
        ])
        const recipient = stored === undefined || stored.erased !== undefined ? null : stored
        const admissions = met.map(({ firedAt, ...each }) => ({
          ...each,
          dueAt: each.dueAt + aheadMs,
          ...(firedAt === undefined ? {} : { firedAt: firedAt + aheadMs }),
        }))
        const shown = windowsOf({ policy, marginMs }, recipient, admissions, query)
        const interval = (each: { readonly from: number; readonly to: number }) => ({
          from: iso(each.from),
          to: iso(each.to),
        })
        return {
          at: iso(now),
          timeZone: recipient?.timeZone ?? null,
          forbidden: shown.forbidden.map(({ kind, channel, ...each }) => ({
            kind,
            channel,
            ...interval(each),
          })),
          streams: shown.streams.map((stream) => ({
            ...stream,
            full: stream.full.map(interval),
            instants: stream.instants.map((each) => ({ ...each, at: iso(each.at) })),
          })),
          truncated: shown.truncated,
        }
      },
    },
  ]
}

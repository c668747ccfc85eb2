/** Routes of holds of notifications: an operator stops some of them until an instant. */
import { SluiceError } from '../../errors.ts'
import type { Clock } from '../../ports.ts'
import type { OperatorHolds } from '../../stages.ts'
import { checkUntil, holdAnswer } from '../hold.ts'
import {
  type HoldBody,
  type HoldParams,
  holdBody,
  holdParams,
  holdSchema,
  holdsSchema,
} from '../pool-schema.ts'
import { basePath, type Route } from '../route.ts'
import { aheadOf } from '../wall-time.ts'

export interface HoldRoutesOptions {
  readonly holds: OperatorHolds
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
}

export function holdRoutes({ holds, clock }: HoldRoutesOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: `${basePath}/holds`,
      operation: 'listHolds',
      tag: 'Operation',
      summary: 'Holds in force: of accounts, and of notifications',
      access: 'reader',
      answers: { 200: { description: 'All of them, by name', schema: holdsSchema } },
      handle: () => ({
        items: holds.list().map((hold) => holdAnswer(hold, aheadOf(clock))),
        nextCursor: null,
      }),
    },
    {
      method: 'PUT',
      path: `${basePath}/holds/:name`,
      operation: 'holdNotifications',
      tag: 'Operation',
      summary: 'Stop notifications until an instant',
      details:
        'From the answer on none of the tenant, channel and category leaves, all of them where none is named, critical ones too. They wait with the reason `held` and leave from that instant on, the earliest accepted first, within all limits. Asked again, the hold of this name is replaced.',
      access: 'operator',
      counts: 'writes',
      params: holdParams,
      body: holdBody,
      answers: { 200: { description: 'The hold in force', schema: holdSchema } },
      problems: ['STORE_UNAVAILABLE'],
      async handle(request) {
        const { name } = request.params as HoldParams
        const { until, ...rest } = request.body as HoldBody
        const hold = await holds.put({ name, ...rest, until: checkUntil(until, clock) })
        request.audit = { filter: { name, ...rest, until }, count: 1 }
        return holdAnswer(hold, aheadOf(clock))
      },
    },
    {
      method: 'DELETE',
      path: `${basePath}/holds/:name`,
      operation: 'releaseNotifications',
      tag: 'Operation',
      summary: 'End a hold of notifications before its time',
      access: 'operator',
      counts: 'writes',
      params: holdParams,
      answers: { 204: { description: 'It stops nothing any more; what waited for it moves up' } },
      problems: ['NOT_FOUND', 'STORE_UNAVAILABLE'],
      async handle(request, reply) {
        const { name } = request.params as HoldParams
        if (!(await holds.end(name))) throw new SluiceError('NOT_FOUND', 'No hold of this name is in force.')
        request.audit = { filter: { name }, count: 1 }
        return reply.code(204).send()
      },
    },
  ]
}

/** Routes of operators about pools: their accounts, and taking one of them out. */
import { SluiceError } from '../../errors.ts'
import type { Clock, HoldRecord } from '../../ports.ts'
import type { AccountDetails, OperatorHolds, PoolDetails, PoolsView } from '../../stages.ts'
import { checkUntil, holdAnswer } from '../hold.ts'
import { accountAnswer, pastAnswer, poolAnswer } from '../pool-answer.ts'
import {
  type AccountHoldBody,
  type AccountParams,
  accountHoldBody,
  accountParams,
  accountSchema,
  holdSchema,
  type PoolsParams,
  poolsQuery,
  poolsSchema,
} from '../pool-schema.ts'
import { basePath, type Route } from '../route.ts'
import { aheadOf } from '../wall-time.ts'

export interface PoolRoutesOptions {
  readonly pools: PoolsView
  readonly holds: OperatorHolds
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
}

export function poolRoutes({ pools, holds, clock }: PoolRoutesOptions): readonly Route[] {
  /** Finds an account by its channel and id. */
  function find({ channel, account }: AccountParams): {
    readonly pool: PoolDetails
    readonly account: AccountDetails
  } {
    for (const pool of pools.details()) {
      if (pool.channel !== channel) continue
      const found = pool.accounts.find(({ id }) => id === account)
      if (found !== undefined) return { pool, account: found }
    }
    throw new SluiceError(
      'NOT_FOUND',
      'There is no account with this id for this channel: GET /pools (sluice pools) lists them.',
    )
  }

  return [
    {
      method: 'GET',
      path: `${basePath}/pools`,
      operation: 'listPools',
      tag: 'Operation',
      summary: 'Accounts: rate, use, blocks, breaker, concurrency',
      access: 'reader',
      query: poolsQuery,
      answers: { 200: { description: 'The pools', schema: poolsSchema } },
      async handle({ query }) {
        const { channel, status } = query as PoolsParams
        await pools.refresh?.()
        const wanted = pools
          .details()
          .filter((pool) => channel === undefined || pool.channel === channel)
          .map((pool) => ({
            ...pool,
            accounts: pool.accounts.filter(
              (account) =>
                status === undefined ||
                (status === 'out' ? account.status !== 'healthy' : account.status === status),
            ),
          }))
        return { pools: wanted.map((pool) => poolAnswer(pool, aheadOf(clock))) }
      },
    },
    {
      method: 'GET',
      path: `${basePath}/pools/:channel/:account`,
      operation: 'getAccount',
      tag: 'Operation',
      summary: 'One account, with its last changes and its last hour',
      access: 'reader',
      params: accountParams,
      answers: { 200: { description: 'The account', schema: accountSchema } },
      problems: ['NOT_FOUND'],
      async handle({ params }) {
        await pools.refresh?.()
        const { pool, account } = find(params as AccountParams)
        const { channel, provider } = pool
        const past = pools.past(channel, account.id) ?? { changes: [], minutes: [] }
        const aheadMs = aheadOf(clock)
        return { ...accountAnswer(account, aheadMs), channel, provider, ...pastAnswer(past, aheadMs) }
      },
    },
    {
      method: 'PUT',
      path: `${basePath}/pools/:channel/:account/hold`,
      operation: 'holdAccount',
      tag: 'Operation',
      summary: 'Take an account out until an instant',
      details:
        'From the answer on nothing is sent through it; the other accounts carry what they can, as when a provider blocks it. It comes back by itself. Asked again, the instant and the reason are replaced.',
      access: 'operator',
      counts: 'writes',
      params: accountParams,
      body: accountHoldBody,
      answers: { 200: { description: 'The hold in force', schema: holdSchema } },
      problems: ['NOT_FOUND', 'STORE_UNAVAILABLE'],
      async handle(request) {
        const params = request.params as AccountParams
        const { pool } = find(params)
        const { until, reason } = request.body as AccountHoldBody
        const { account } = params
        const hold: HoldRecord = await holds.put({
          name: nameOf(params),
          channel: pool.channel,
          account,
          until: checkUntil(until, clock),
          reason,
        })
        request.audit = { filter: { channel: pool.channel, account, until, reason }, count: 1 }
        return holdAnswer(hold, aheadOf(clock))
      },
    },
    {
      method: 'DELETE',
      path: `${basePath}/pools/:channel/:account/hold`,
      operation: 'releaseAccount',
      tag: 'Operation',
      summary: 'Put an account back before its hold is over',
      access: 'operator',
      counts: 'writes',
      params: accountParams,
      answers: { 204: { description: 'No hold keeps it out, now or since before' } },
      problems: ['NOT_FOUND', 'STORE_UNAVAILABLE'],
      async handle(request, reply) {
        const params = request.params as AccountParams
        const { pool } = find(params)
        const count = (await holds.end(nameOf(params))) ? 1 : 0
        request.audit = { filter: { channel: pool.channel, account: params.account }, count }
        return reply.code(204).send()
      },
    },
  ]
}

/** The name of the hold of an account; a name that operators choose has no slash. */
const nameOf = ({ channel, account }: AccountParams): string => `${channel}/${account}`

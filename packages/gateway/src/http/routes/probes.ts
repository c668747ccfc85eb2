/** Liveness, readiness and metrics, for load balancers, orchestrators and Prometheus. */
import type { FastifyReply } from 'fastify'
import { SluiceError } from '../../errors.ts'
import type { Metrics } from '../../observability/metrics.ts'
import type { Store } from '../../ports.ts'
import type { PoolReport } from '../../stages.ts'
import { healthSchema, readinessSchema } from '../answer-schema.ts'
import { sendProblem } from '../problem.ts'
import type { Route } from '../route.ts'

type ServedMetrics = Pick<Metrics, 'text' | 'contentType' | 'apart'>

interface ProbeRoutesOptions {
  readonly store: Pick<Store, 'ping'>
  /** True during the graceful shutdown. */
  readonly isClosing: () => boolean
  readonly pools: () => readonly PoolReport[]
  /** Absent where they are served on a port of their own. */
  readonly metrics: ServedMetrics | undefined
}

/**
 * Finds pools without an account that can be called now. Notifications accepted meanwhile wait, so these pools
 * refuse nothing.
 */
function poolsOut(pools: readonly PoolReport[]): readonly string[] {
  return pools
    .filter(({ accounts }) => accounts.every(({ status }) => status !== 'healthy'))
    .map(({ channel, provider }) => `pool ${channel} (${provider}): no account is healthy`)
}

export function probeRoutes({ store, isClosing, metrics, pools }: ProbeRoutesOptions): readonly Route[] {
  function notReady(reply: FastifyReply, error: SluiceError, what: string): FastifyReply {
    return sendProblem(reply, error, { degraded: [what, ...poolsOut(pools())] })
  }

  return [
    {
      method: 'GET',
      path: '/healthz',
      operation: 'getHealth',
      tag: 'Probes',
      summary: 'Whether the process is alive',
      access: 'open',
      answers: { 200: { description: 'It is', schema: healthSchema } },
      handle: () => ({ status: 'ok' }),
    },
    {
      method: 'GET',
      path: '/readyz',
      operation: 'getReadiness',
      tag: 'Probes',
      summary: 'Whether it can accept notifications now; what does not work is named',
      access: 'open',
      answers: { 200: { description: 'It can', schema: readinessSchema } },
      problems: ['STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(_request, reply) {
        if (isClosing()) {
          const error = new SluiceError('STORE_UNAVAILABLE', 'The gateway is shutting down.')
          return notReady(reply, error, 'gateway: shutting down')
        }
        try {
          await store.ping()
        } catch (error) {
          const message = 'The store cannot be read and written now.'
          const known =
            error instanceof SluiceError
              ? error
              : new SluiceError('STORE_UNAVAILABLE', message, { cause: error })
          const part = known.code === 'STATE_UNAVAILABLE' ? 'state' : 'store'
          return notReady(reply, known, `${part}: ${known.message}`)
        }
        const degraded = poolsOut(pools())
        return degraded.length === 0 ? { status: 'ready' } : { status: 'ready', degraded }
      },
    },
    ...(metrics === undefined ? [] : metricsRoutes(metrics)),
  ]
}

function metricsRoutes(metrics: ServedMetrics): readonly Route[] {
  const route = (
    path: string,
    text: () => Promise<string>,
  ): Omit<Route, 'operation' | 'summary' | 'access'> => ({
    method: 'GET',
    path,
    tag: 'Probes',
    answers: { 200: { description: 'The metrics', type: 'text/plain' } },
    async handle(_request, reply) {
      return reply.header('content-type', metrics.contentType).send(await text())
    },
  })
  const accounts = metrics.apart.get('/metrics/accounts')
  const tenants = metrics.apart.get('/metrics/tenants')
  return [
    {
      ...route('/metrics', metrics.text),
      operation: 'getMetrics',
      summary: "Counts and latencies in Prometheus' form",
      access: 'open',
    },
    ...(accounts === undefined
      ? []
      : [
          {
            ...route('/metrics/accounts', accounts),
            operation: 'getAccountMetrics',
            summary: 'Calls and use of each account',
            access: 'open' as const,
          },
        ]),
    ...(tenants === undefined
      ? []
      : [
          {
            ...route('/metrics/tenants', tenants),
            operation: 'getTenantMetrics',
            summary: 'Counts of the tenants with the most notifications',
            access: 'reader' as const,
          },
        ]),
  ]
}

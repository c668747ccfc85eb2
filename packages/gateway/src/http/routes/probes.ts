/** Liveness, readiness and metrics, for load balancers, orchestrators and Prometheus. */
import type { FastifyReply } from 'fastify'
import { SluiceError } from '../../errors.ts'
import type { Metrics } from '../../observability/metrics.ts'
import type { Store } from '../../ports.ts'
import type { IntakeReport } from '../../reports.ts'
import type { PoolReport } from '../../stages.ts'
import { healthSchema, readinessSchema } from '../answer-schema.ts'
import { sendProblem } from '../problem.ts'
import type { Route } from '../route.ts'

type ServedMetrics = Pick<Metrics, 'text' | 'contentType' | 'apart'>

/** Limiter state on a server, as readiness looks at it. */
export interface ProbedState {
  /** Rejects with STATE_UNAVAILABLE. */
  ping(): Promise<void>
  /** The process that keeps the limits in its memory while the server does not answer it. @defaultValue nobody */
  keeper?(): 'this process' | 'another process' | undefined
  /** For how long the server could not be asked, ms, and why; undefined while it answers. */
  away(): { readonly ms: number; readonly reason: string } | undefined
  /** True if notifications are refused while it does not answer; else they are accepted undecided. */
  isNeeded(): boolean
}

interface ProbeRoutesOptions {
  readonly store: Pick<Store, 'ping'>
  /** True during the graceful shutdown. */
  readonly isClosing: () => boolean
  readonly pools: () => readonly PoolReport[]
  /** Topics whose records are taken. @defaultValue none */
  readonly intakes?: (() => readonly IntakeReport[]) | undefined
  /** Limiter state on a server; absent where it is in memory. */
  readonly state?: ProbedState | undefined
  /** The broker in front of the queue; absent where there is none. */
  readonly outgoing?: (() => { readonly awaySince: number | undefined }) | undefined
  /** The delivery log; absent where the timeline is kept in the store alone. */
  readonly deliveryLog?: (() => { readonly awaySince: number | undefined }) | undefined
  /** A sentence for each gateway over the same record that has another configuration. @defaultValue none */
  readonly configurationDifferences?: (() => readonly string[]) | undefined
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

/** Finds topics whose brokers do not answer: their records wait there, and requests are accepted as ever. */
function intakesAway(intakes: readonly IntakeReport[]): readonly string[] {
  return intakes
    .filter(({ awaySince }) => awaySince !== undefined)
    .map(({ topic }) => `intake ${topic}: no broker answers`)
}

export function probeRoutes({
  store,
  state,
  deliveryLog,
  outgoing,
  isClosing,
  metrics,
  pools,
  intakes = () => [],
  configurationDifferences = () => [],
}: ProbeRoutesOptions): readonly Route[] {
  function notReady(reply: FastifyReply, error: SluiceError, what: string): FastifyReply {
    return sendProblem(reply, error, { degraded: [what, ...poolsOut(pools())] })
  }

  async function stateAway(): Promise<SluiceError | undefined> {
    try {
      await state?.ping()
      return undefined
    } catch (error) {
      if (error instanceof SluiceError) return error
      throw error
    }
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
          return notReady(reply, known, `store: ${known.message}`)
        }
        const away = await stateAway()
        const keeper = state?.keeper?.()
        if (away !== undefined && state?.isNeeded() === true)
          return notReady(reply, away, `state: ${away.message}`)
        const degraded = [
          ...(away === undefined ? [] : [`state: ${away.message}`]),
          ...(keeper === undefined ? [] : [`state: Redis does not answer, and ${keeper} keeps the limits`]),
          // Changes that it has not got yet wait in the store: nothing is refused.
          ...(deliveryLog?.().awaySince === undefined ? [] : ['deliveryLog: Cassandra does not answer']),
          // The queue of the process takes its place meanwhile.
          ...(outgoing?.().awaySince === undefined ? [] : ['queue: RabbitMQ does not answer']),
          ...intakesAway(intakes()),
          ...configurationDifferences().map((difference) => `fleet: ${difference}`),
          ...poolsOut(pools()),
        ]
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

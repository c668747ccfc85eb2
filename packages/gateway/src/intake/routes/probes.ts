/** Is it alive, can it work, how does it do: what load balancers, orchestrators and Prometheus ask. */
import { SluiceError } from '../../errors.ts'
import type { Store } from '../../ports.ts'
import { healthSchema } from '../answer-schema.ts'
import type { Metrics } from '../metrics.ts'
import type { Route } from '../route.ts'

export interface ProbeRoutesOptions {
  readonly store: Pick<Store, 'ping'>
  /** Whether the server is on its way out. */
  readonly isClosing: () => boolean
  readonly metrics: Pick<Metrics, 'text' | 'contentType'>
}

export function probeRoutes({ store, isClosing, metrics }: ProbeRoutesOptions): readonly Route[] {
  return [
    {
      method: 'GET',
      path: '/healthz',
      summary: 'Whether the process is alive',
      access: 'open',
      answers: { 200: { description: 'It is', schema: healthSchema } },
      handle: () => ({ status: 'ok' }),
    },
    {
      method: 'GET',
      path: '/readyz',
      summary: 'Whether it can accept notifications now',
      access: 'open',
      answers: { 200: { description: 'It can', schema: healthSchema } },
      problems: ['STORE_UNAVAILABLE'],
      async handle() {
        if (isClosing()) throw new SluiceError('STORE_UNAVAILABLE', 'The gateway is shutting down.')
        try {
          await store.ping()
        } catch (error) {
          if (error instanceof SluiceError) throw error
          throw new SluiceError('STORE_UNAVAILABLE', 'The store cannot be read and written now.', {
            cause: error,
          })
        }
        return { status: 'ready' }
      },
    },
    {
      method: 'GET',
      path: '/metrics',
      summary: "Counts and latencies in Prometheus' form",
      access: 'open',
      answers: { 200: { description: 'The metrics', type: 'text/plain' } },
      async handle(_request, reply) {
        return reply.header('content-type', metrics.contentType).send(await metrics.text())
      },
    },
  ]
}

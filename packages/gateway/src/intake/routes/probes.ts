/** Is it alive, can it work: what load balancers and orchestrators ask. */
import { SluiceError } from '../../errors.ts'
import type { Store } from '../../ports.ts'
import { healthSchema } from '../answer-schema.ts'
import type { Route } from '../route.ts'

export interface ProbeRoutesOptions {
  readonly store: Pick<Store, 'ping'>
  /** Whether the server is on its way out. */
  readonly isClosing: () => boolean
}

export function probeRoutes({ store, isClosing }: ProbeRoutesOptions): readonly Route[] {
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
  ]
}

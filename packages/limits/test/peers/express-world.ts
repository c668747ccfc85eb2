/** Each case of express-rate-limit gets a real Express app: the limiters, a route that answers, a handler of errors. */
import type { AddressInfo } from 'node:net'
import express, { type ErrorRequestHandler, type Request, type RequestHandler, type Response } from 'express'
import { createLimits, type Limits, limit, memoryStore, type Store } from '../../src/index.ts'
import { createExpressLimiter, type ExpressLimiterOptions } from '../../src/middleware/express.ts'

export type Options = Partial<ExpressLimiterOptions<Request, Response>>

interface App {
  readonly get: (query?: string, headers?: Record<string, string>) => Promise<globalThis.Response>
  /** The status of each of so many requests, one after the other. */
  readonly statuses: (times: number, query?: string) => Promise<readonly number[]>
  /** Messages of the errors that came to the error handler. */
  readonly errors: readonly string[]
}

export interface ExpressWorld {
  /** Epoch milliseconds, moved by the case. */
  readonly clock: { now: number }
  readonly store: Store
  readonly limits: Limits
  /** An app behind these limiters. */
  readonly serve: (...limiters: readonly RequestHandler[]) => Promise<App>
  /** An app behind one limiter over the limits of this world. */
  readonly limited: (window: string, options?: Options) => Promise<App>
}

export const answer = 'hello'

export function expressWorlds(): {
  readonly open: () => ExpressWorld
  readonly close: () => Promise<unknown>
} {
  const closings: (() => Promise<void>)[] = []

  async function serve(...limiters: readonly RequestHandler[]): Promise<App> {
    const app = express()
    const errors: string[] = []
    app.get('/', ...limiters, (_request, response) => void response.send(answer))
    const failed: ErrorRequestHandler = (error: Error, _request, response, _next) => {
      errors.push(error.message)
      response.status(500).end()
    }
    app.use(failed)
    const server = app.listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    closings.push(
      () => new Promise((resolve) => server.closeAllConnections() ?? server.close(() => resolve())),
    )
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const get: App['get'] = (query = '', headers = {}) => fetch(`${origin}/${query}`, { headers })
    return {
      get,
      errors,
      async statuses(times, query) {
        const seen: number[] = []
        for (let call = 0; call < times; call += 1) seen.push((await get(query)).status)
        return seen
      },
    }
  }

  return {
    open() {
      const clock = { now: Date.UTC(2026, 10, 21, 12) }
      const store = memoryStore({ now: () => clock.now })
      const limits = createLimits({ store })
      return {
        clock,
        store,
        limits,
        serve,
        limited: (window, options = {}) =>
          serve(
            createExpressLimiter<Request, Response>({ limits, rules: [limit('api', window)], ...options }),
          ),
      }
    },
    close: () => Promise.all(closings.map((close) => close())),
  }
}

/** A store that fails with this error, whatever it is asked. */
export function failing(store: Store, error: Error): Limits {
  return createLimits({ store: { ...store, sync: undefined, decide: () => Promise.reject(error) } as never })
}

/** Measures every request that is answered: its duration by route and status, and the code of its problem. */
import type { FastifyInstance } from 'fastify'
import type { ErrorCode } from '../errors.ts'
import type { HttpMetrics } from '../observability/http-metrics.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The code of the problem that answers the request; undefined without one. */
    problem: ErrorCode | undefined
  }
}

const arrivals = new WeakMap<object, number>()

/** Notes that a request has arrived: its time in the queue before the routes counts. */
export const noteArrival = (request: object): void => void arrivals.set(request, performance.now())

/** Registers the hooks. */
export function observeRequests(app: FastifyInstance, metrics: HttpMetrics): void {
  app.decorateRequest('problem', undefined)
  app.server.on('connection', (socket) => socket.once('close', metrics.connected()))
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const { raw, problem } = request
    const arrivedAt = arrivals.get(raw)
    const tookMs = arrivedAt === undefined ? reply.elapsedTime : performance.now() - arrivedAt
    metrics.answered(request.routeOptions.url, raw.method ?? 'GET', reply.statusCode, tookMs)
    if (problem !== undefined) metrics.refused(problem)
    done()
  })
}

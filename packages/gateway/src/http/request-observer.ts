/** Measures every request that is answered: its duration by route and status, and the code of its problem. */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { ErrorCode } from '../errors.ts'
import type { HttpMetrics } from '../observability/http-metrics.ts'
import type { AuditEntry, RequestLog } from '../observability/request-log.ts'
import { type Identity, operatorScope } from './identity.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The code of the problem that answers the request; undefined without one. */
    problem: ErrorCode | undefined
    /** The change that an operator made with it; undefined where it is none. */
    audit: AuditEntry | undefined
  }
  interface FastifyContextConfig {
    /** A change by an operator is audited. */
    audited?: boolean
  }
}

const arrivedAtMs = Symbol('the instant of arrival')

/** A property of the request: an entry of a WeakMap for each is work for every garbage collection. */
interface Stamped {
  [arrivedAtMs]?: number
}

/** Notes that a request has arrived: its time in the queue before the routes counts. */
export function noteArrival(request: object): void {
  const stamped: Stamped = request
  stamped[arrivedAtMs] = performance.now()
}

/** Registers the hooks. A request that is unobserved is only named. */
export function observeRequests(
  app: FastifyInstance,
  metrics: HttpMetrics,
  log?: RequestLog,
  unobserved?: () => boolean,
): void {
  app.decorateRequest('problem', undefined)
  app.decorateRequest('audit', undefined)
  app.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', request.id)
    done()
  })
  app.server.on('connection', (socket) => socket.once('close', metrics.connected()))
  app.addHook('onResponse', (request, reply, done) => {
    if (unobserved?.() === true) return done()
    const { raw, problem } = request
    const arrivedAt = (raw as Stamped)[arrivedAtMs]
    const tookMs = arrivedAt === undefined ? reply.elapsedTime : performance.now() - arrivedAt
    const { url: route, config } = request.routeOptions
    const { statusCode: status } = reply
    metrics.answered(route, raw.method ?? 'GET', status, tookMs)
    if (problem !== undefined) metrics.refused(problem)
    const audit = config.audited === true ? auditOf(request) : undefined
    if (log !== undefined && (audit !== undefined || log.wants(status, tookMs))) {
      const caller: Identity | undefined = request.caller
      log.note({
        requestId: request.id,
        tenant: caller?.tenant,
        module: caller?.module,
        method: raw.method ?? 'GET',
        route,
        status,
        code: problem,
        tookMs,
        bytes: request.received?.length,
        audit,
      })
    }
    done()
  })
}

/** Describes the change for the audit; undefined where the caller is no operator. */
function auditOf({ caller, audit }: FastifyRequest): AuditEntry | undefined {
  const known: Identity | undefined = caller
  if (known === undefined || !known.scopes.has(operatorScope)) return undefined
  return { sub: known.subject, ...audit }
}

/**
 * Keeps the requests that were refused or failed, newest last: 4xx without 404, and 5xx. An operator reads here why a
 * client fails, without its logs. In memory, at most 10,000 of some 500 bytes each; never a body.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { SluiceError } from '../errors.ts'
import type { Clock } from '../ports.ts'
import type { OverviewSeries } from './overview-series.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The error with which the request was answered. */
    refusal?: SluiceError
    /** The id of the notification that was queued though the answer is 429. */
    notificationId?: string
  }
}

export interface LoggedRequest {
  readonly requestId: string
  readonly at: number
  readonly tenant?: string
  readonly module?: string
  readonly method: string
  /** The path of the route, without ids. */
  readonly route: string
  readonly status: number
  readonly code?: string
  readonly tookMs: number
  /** Bytes of the body as it was received. */
  readonly bytes: number
  readonly errors: readonly { readonly path: string; readonly message: string }[]
  /** The notification that the request names, or that it has queued. */
  readonly notificationId?: string
  readonly idempotencyKey?: string
  readonly recipient?: string
}

export interface RequestFilter {
  readonly tenant?: string
  readonly status?: number
  readonly code?: string
  readonly recipient?: string
  readonly from?: number
  readonly limit: number
}

export interface RefusedRequests {
  attach(app: FastifyInstance): void
  /** The newest first. */
  find(filter: RequestFilter): readonly LoggedRequest[]
}

export interface RefusedRequestsOptions {
  readonly clock: Pick<Clock, 'now'>
  readonly series: Pick<OverviewSeries, 'add'>
  /** @defaultValue 10_000 */
  readonly max?: number
  /** True keeps the requests that were answered well, too. @defaultValue false */
  readonly all?: boolean | undefined
}

/** Faults of one request that are kept. */
const errorsMax = 20

export function createRefusedRequests({
  clock,
  series,
  max = 10_000,
  all = false,
}: RefusedRequestsOptions): RefusedRequests {
  const ring: LoggedRequest[] = []
  /** The place of the next one, once the ring is full. */
  let next = 0

  function keep(logged: LoggedRequest): void {
    ring[next] = logged
    next = (next + 1) % max
  }

  function note(request: FastifyRequest, reply: FastifyReply): void {
    const { statusCode: status } = reply
    if (status >= 400) series.add(status >= 500 ? 'requests5xx' : 'requests4xx')
    if (!all && (status < 400 || status === 404)) return
    const { refusal, caller, method, received, body, headers } = request
    const recipient = recipientOf(body)
    const key = headers['idempotency-key']
    const code = refusal?.code ?? request.problem
    const notificationId = request.notificationId ?? idInPath(request)
    keep({
      requestId: request.id,
      at: clock.now(),
      ...(caller === undefined ? {} : { tenant: caller.tenant, module: caller.module }),
      method,
      route: request.routeOptions.url ?? '',
      status,
      ...(code === undefined ? {} : { code }),
      tookMs: Math.round(reply.elapsedTime * 10) / 10,
      bytes: received?.length ?? 0,
      errors: (refusal?.errors ?? []).slice(0, errorsMax).map(({ path, message }) => ({ path, message })),
      ...(notificationId === undefined ? {} : { notificationId }),
      ...(typeof key === 'string' ? { idempotencyKey: key.slice(0, 255) } : {}),
      ...(recipient === undefined ? {} : { recipient }),
    })
  }

  return {
    attach(app) {
      app.addHook('onResponse', (request, reply, done) => {
        note(request, reply)
        done()
      })
    },
    find({ tenant, status, code, recipient, from = 0, limit }) {
      const found: LoggedRequest[] = []
      for (let back = 1; back <= ring.length && found.length < limit; back += 1) {
        const each = ring[(next - back + max) % max]
        if (each === undefined || each.at < from) break
        if (tenant !== undefined && each.tenant !== tenant) continue
        if (status !== undefined && each.status !== status) continue
        if (code !== undefined && each.code !== code) continue
        if (recipient !== undefined && each.recipient !== recipient) continue
        found.push(each)
      }
      return found
    },
  }
}

function idInPath({ params, routeOptions }: FastifyRequest): string | undefined {
  if (routeOptions.url?.includes('/notifications/:id') !== true) return undefined
  return (params as { id: string }).id.slice(0, 128)
}

/** The recipient's id in the body of a notification. */
function recipientOf(body: unknown): string | undefined {
  const { recipient } = (typeof body === 'object' && body !== null ? body : {}) as { recipient?: unknown }
  const id =
    typeof recipient === 'object' && recipient !== null ? (recipient as { id?: unknown }).id : recipient
  return typeof id === 'string' ? id.slice(0, 256) : undefined
}

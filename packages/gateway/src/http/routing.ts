/**
 * Registers the table of routes with Fastify: authentication, validation, and admission to the tenant's
 * bulkhead before each handler.
 */
import type { TSchema } from '@sinclair/typebox'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { SluiceError } from '../errors.ts'
import { type HeavyRequestPacer, heavyBytesOf } from './heavy-request-pacer.ts'
import { type Authenticate, operatorScope, readScope } from './identity.ts'
import { nothing } from './problem.ts'
import type { RequestLimits } from './request-limits.ts'
import type { Route } from './route.ts'
import { type TenantBulkhead, unitsOf } from './tenant-bulkhead.ts'
import { compileCheck, invalidRequest } from './validation.ts'

/** Bytes of an ignored body at most: `List-Unsubscribe=One-Click` in one form or another. */
const ignoredBodyMaxBytes = 16_384

/** Everything that a request passes before its handler. */
export interface RequestChecks {
  readonly authenticate: Authenticate
  readonly bulkhead: TenantBulkhead
  readonly pacer: Pick<HeavyRequestPacer, 'note' | 'pace'>
  readonly limits: RequestLimits
}

/** Registers the routes. */
export function addRoutes(app: FastifyInstance, routes: readonly Route[], checks: RequestChecks): void {
  for (const route of routes)
    if (route.bodyIgnored !== true && route.bodyRaw !== true) addRoute(app, route, checks)
  app.register(async (apart) => {
    apart.removeAllContentTypeParsers()
    apart.addContentTypeParser(
      '*',
      { parseAs: 'buffer', bodyLimit: ignoredBodyMaxBytes },
      (_request, _bytes, done) => done(null, undefined),
    )
    for (const route of routes) if (route.bodyIgnored === true) addRoute(apart, route, checks)
  })
  app.register(async (apart) => {
    apart.removeAllContentTypeParsers()
    apart.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, bytes, done) => done(null, bytes))
    for (const route of routes) if (route.bodyRaw === true) addRoute(apart, route, checks)
  })
}

function addRoute(app: FastifyInstance, route: Route, checks: RequestChecks): void {
  const { method, path, access, params, query, body } = route
  app.route({
    method,
    url: path,
    ...(route.stream === true ? { exposeHeadRoute: false } : {}),
    config: { bodyApart: route.bodyApart === true, audited: isAudited(route) },
    ...(route.bodyMaxBytes === undefined ? {} : { bodyLimit: route.bodyMaxBytes }),
    schema: {
      ...(params === undefined ? {} : { params }),
      ...(query === undefined ? {} : { querystring: query }),
      ...(body === undefined || route.bodyChecked !== undefined ? {} : { body }),
    },
    validatorCompiler: ({ schema, httpPart }) => {
      const check = compileCheck(schema as unknown as TSchema, httpPart === 'body' ? 'body' : 'query')
      return (value: unknown) => {
        const faults = check(value)
        if (faults === undefined) return true
        // `/notifications/` is no request for a notification without an id: no route has such a path.
        if (httpPart === 'params' && Object.values(value as object).includes('')) return { error: nothing() }
        return { error: invalidRequest(faults) }
      }
    },
    ...(access === 'open' ? {} : { onRequest: identify(checks, route) }),
    ...(route.bodyOptional === true ? { preValidation: fillBody } : {}),
    handler: access === 'open' || route.stream === true ? route.handle : handleInBulkhead(route, checks),
  })
}

/** True for a route that changes something: an operator's change is audited. */
const isAudited = ({ method, access, audited }: Route): boolean =>
  audited ?? (method !== 'GET' && access !== 'open')

/**
 * Runs the handler once the tenant's bulkhead has room, which it occupies until the handler has ended. A long list waits
 * for its pace before: there it takes no room from the small requests of its tenant.
 */
function handleInBulkhead(
  { handle, recipientsOf, rowsOf }: Route,
  { bulkhead, pacer }: Pick<RequestChecks, 'bulkhead' | 'pacer'>,
): Route['handle'] {
  function begin(request: FastifyRequest, reply: FastifyReply, units: number): unknown {
    const { tenant } = request.caller
    const leave = (): void => bulkhead.leave(tenant, units)
    try {
      const result = handle(request, reply)
      if (result instanceof Promise) result.then(leave, leave)
      else leave()
      return result
    } catch (error) {
      leave()
      throw error
    }
  }

  function enter(request: FastifyRequest, reply: FastifyReply): unknown {
    const { tenant } = request.caller
    const units = unitsOf(request.received?.length ?? 0, recipientsOf?.(request), rowsOf?.(request))
    const room = bulkhead.enter(tenant, units)
    if (room === undefined) return begin(request, reply, units)
    return room.then(() => {
      if (!reply.raw.destroyed) return begin(request, reply, units)
      // A request whose client has disconnected is not handled.
      bulkhead.leave(tenant, units)
      return reply.hijack()
    })
  }

  return (request, reply) => {
    const bytes = rowsOf === undefined ? 0 : heavyBytesOf(rowsOf(request))
    const turn = bytes === 0 ? undefined : pacer.pace(request.caller.tenant, bytes)
    if (turn === undefined) return enter(request, reply)
    return turn.then(() => (reply.raw.destroyed ? reply.hijack() : enter(request, reply)))
  }
}

type Done = (error?: Error) => void

/** Authenticates before the body is read: no unknown caller may send one, and none above its rate. */
function identify({ authenticate, limits, pacer }: RequestChecks, { access, counts, scope }: Route) {
  const needed =
    access === 'operator' ? [operatorScope] : access === 'reader' ? [operatorScope, readScope] : [scope]
  const admit = (request: FastifyRequest, caller: FastifyRequest['caller'], done: Done): void => {
    const isAdmitted = needed.some((each) => each === undefined || caller.scopes.has(each))
    if (!isAdmitted) {
      const challenge = `Bearer error="insufficient_scope", scope="${needed.at(-1)}"`
      done(new SluiceError('FORBIDDEN', `This route needs the scope ${needed.join(' or ')}.`, { challenge }))
      return
    }
    request.caller = caller
    pacer.note(caller.tenant)
    try {
      const counting = counts === undefined ? undefined : limits.take(counts, caller.tenant)
      if (counting instanceof Promise) counting.then(() => done(), done)
      else done()
    } catch (error) {
      done(error as Error)
    }
  }
  return (request: FastifyRequest, _reply: FastifyReply, done: Done): void => {
    try {
      const caller = authenticate(request)
      if (caller instanceof Promise) caller.then((known) => admit(request, known, done), done)
      else admit(request, caller, done)
    } catch (error) {
      done(error as Error)
    }
  }
}

function fillBody(request: FastifyRequest, _reply: FastifyReply, done: Done): void {
  if (request.received === null) request.body ??= {}
  done()
}

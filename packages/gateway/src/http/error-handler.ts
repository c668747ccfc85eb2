/** Answers every error, and unknown paths and methods, with a problem (problem.ts). */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { SluiceError } from '../errors.ts'
import type { LogFields } from '../observability/log-events.ts'
import { asSluiceError, nothing, sendProblem } from './problem.ts'
import type { Route } from './route.ts'

export interface ErrorLog {
  error(fields: LogFields, text?: string): void
}

/** Answers unknown paths and methods, and every error. */
export function answerTheRest(app: FastifyInstance, routes: readonly Route[], log: ErrorLog): void {
  const places = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>()
  for (const { path, method, stream } of routes) {
    const place = places.get(path) ?? { pattern: patternOf(path), methods: new Set<string>() }
    place.methods.add(method)
    if (method === 'GET' && stream !== true) place.methods.add('HEAD')
    places.set(path, place)
  }

  function notFound(request: FastifyRequest, reply: FastifyReply): void {
    const path = request.url.split('?', 1)[0]!
    // The literal path wins: `/notifications/batch` before `/notifications/:id`.
    const meant = places.get(path)
    const fitting =
      meant === undefined ? [...places.values()].filter(({ pattern }) => pattern.test(path)) : [meant]
    const methods = new Set(fitting.flatMap((place) => [...place.methods]))
    if (methods.size === 0) {
      sendProblem(reply, nothing())
      return
    }
    const allow = [...methods].join(', ')
    reply.header('allow', allow)
    sendProblem(reply, new SluiceError('METHOD_NOT_ALLOWED', `This path takes ${allow}.`))
  }

  // Otherwise a method of another route would be applied to a literal path: to the notification `batch`.
  for (const [url, { methods }] of places) {
    for (const { method, path } of routes) {
      if (path === url || methods.has(method) || !places.get(path)!.pattern.test(url)) continue
      app.route({ method, url, onRequest: callNotFound, handler: callNotFound })
    }
  }
  app.setNotFoundHandler(notFound)
  app.setErrorHandler((error, request, reply) => {
    const known = asSluiceError(error)
    // Fastify would close the connection here, and a client that is still sending would find it reset and not
    // read why. Node reads past the rest of the body, for no longer than a whole request may take.
    if (known.code === 'PAYLOAD_TOO_LARGE') reply.removeHeader('connection')
    if (request.is404) return notFound(request, reply)
    // A damaged row was logged when it was found.
    // A 503 is a refusal, which has lines at a bounded rate.
    if (known.status === 500 && known.row === undefined)
      log.error({
        event: 'http.error',
        err: error,
        requestId: request.id,
        method: request.method,
        route: request.routeOptions.url,
      })
    sendProblem(reply, known)
  })
}

function callNotFound(_request: FastifyRequest, reply: FastifyReply): void {
  reply.callNotFound()
}

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/[.]/g, '\\.').replaceAll(/:[a-z]+/g, '[^/]+')}$`)
}

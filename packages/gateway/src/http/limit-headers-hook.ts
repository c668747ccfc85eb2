/** Sets the rate limit headers of every answer about notifications, as it is sent. */
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Caller } from '../stages.ts'
import type { Authenticate } from './identity.ts'
import { basePath } from './route.ts'

type Headers = Readonly<Record<string, string>>
/** Synchronous where nothing has to be read. */
export type LimitHeaders = (caller: Caller) => Headers | Promise<Headers>

/** Adds the headers when the answer is sent, so that they include this request; on refusals too. */
export function addLimitHeaders(
  app: FastifyInstance,
  limitHeaders: LimitHeaders,
  authenticate: Authenticate,
): void {
  const place = `${basePath}/notifications`
  const around = new RegExp(`^${place}(?:[/?]|$)`)

  /** An error of the limits must not lose an answer that is already decided. */
  function setFor(caller: Caller, reply: FastifyReply, done: () => void): void {
    const set = (headers: Headers): void => {
      // A reply is a promise of its own end: nothing here may wait for it.
      for (const name in headers) reply.header(name, headers[name])
    }
    const headers = limitHeaders(caller)
    if (headers instanceof Promise) {
      headers.then(set).then(done, done)
      return
    }
    set(headers)
    done()
  }

  app.addHook('onRoute', (route) => {
    if (!route.url.startsWith(place)) return
    route.onSend = (request, reply, _payload, done) => {
      // A caller that was refused before it was known has no limits.
      if (request.caller === undefined) done()
      else setFor(request.caller, reply, () => done())
    }
  })
  app.addHook('onSend', (request, reply, _payload, done) => {
    if (!request.is404 || !around.test(request.url)) return done()
    // Without a route nothing needs authentication; an unknown caller gets the same answer.
    new Promise<Caller>((resolve) => resolve(authenticate(request))).then(
      (caller) => setFor(caller, reply, () => done()),
      () => done(),
    )
  })
}

/**
 * The limiter in front of Fastify 5, as a hook: `app.addHook('onRequest', createFastifyLimiter({ limits, rules }))`, or
 * in the options of one route. The address is `request.ip`, so Fastify's own `trustProxy` decides whose word about it
 * counts. Whoever counts by user takes a hook that runs after authentication.
 */
import { createGuard, type GuardOptions, joined, problemType, type Refusal } from './guard.ts'

export type { Fields, GuardOptions, LimitsProblem, Refusal } from './guard.ts'

/** The parts of a request that are read; Fastify's own type fits. Name that type in your functions to see all of it. */
export interface FastifyRequestLike {
  readonly ip: string
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** The parts of a reply that are used; Fastify's own type fits. */
export interface FastifyReplyLike {
  getHeader(name: string): unknown
  header(name: string, value: string): unknown
  code(status: number): unknown
  send(body?: unknown): unknown
}

export interface FastifyLimiterOptions<
  Request extends FastifyRequestLike = FastifyRequestLike,
  Reply extends FastifyReplyLike = FastifyReplyLike,
> extends GuardOptions<Request> {
  /** Answers in place of the 429 or 503 problem, by `reply.send`; one that sends nothing lets the request pass. */
  readonly onRefused?: (refusal: Refusal, request: Request, reply: Reply) => unknown
}

export type FastifyLimiter<Request, Reply> = (request: Request, reply: Reply) => Promise<unknown>

/**
 * Counts a request before its handler runs, and answers 429 in its place when a limit does not admit it. With
 * `key: 'user'` the user is `request.user`, which authentication has put there before.
 *
 * @throws LimitsError `INVALID_ARGUMENT` for options that make no sense
 */
export function createFastifyLimiter<
  Request extends FastifyRequestLike = FastifyRequestLike,
  Reply extends FastifyReplyLike = FastifyReplyLike,
>(options: FastifyLimiterOptions<Request, Reply>): FastifyLimiter<NoInfer<Request>, NoInfer<Reply>> {
  const guard = createGuard<Request>(
    options,
    {
      address: (request) => request.ip,
      user: (request) => (request as { readonly user?: unknown }).user,
    },
    ['onRefused'],
  )
  const { onRefused } = options
  return async (request, reply) => {
    const { fields, refusal } = await guard(request)
    for (const [name, value] of Object.entries(fields)) {
      reply.header(name, joined(name, value, reply.getHeader(name)))
    }
    if (refusal === undefined) return undefined
    if (onRefused !== undefined) return onRefused(refusal, request, reply)
    reply.code(refusal.status)
    reply.header('content-type', problemType)
    // An asynchronous hook that has answered returns the reply, so that the handler does not run.
    reply.send(JSON.stringify(refusal.problem))
    return reply
  }
}

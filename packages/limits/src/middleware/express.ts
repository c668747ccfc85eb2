/**
 * The limiter in front of Express 5 (and what has its shape): `app.use(createExpressLimiter({ limits, rules }))`, or on
 * one route. The address is `request.ip`, so Express's own `trust proxy` decides whose word about it counts.
 */
import { createGuard, type GuardOptions, joined, problemType, type Refusal } from './guard.ts'

export type { Fields, GuardOptions, LimitsProblem, Refusal } from './guard.ts'

/** The parts of a request that are read; Express's own type fits. Name that type in your functions to see all of it. */
export interface ExpressRequest {
  readonly ip?: string | undefined
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** The parts of a response that are used; Express's own type fits. */
export interface ExpressResponse {
  statusCode: number
  getHeader(name: string): unknown
  setHeader(name: string, value: string): unknown
  end(body: string): unknown
}

export type ExpressNext = (error?: unknown) => void

export interface ExpressLimiterOptions<
  Request extends ExpressRequest = ExpressRequest,
  Response extends ExpressResponse = ExpressResponse,
> extends GuardOptions<Request> {
  /** Answers in place of the 429 or 503 problem; calling `next()` lets the request pass all the same. */
  readonly onRefused?: (refusal: Refusal, request: Request, response: Response, next: ExpressNext) => unknown
}

export type ExpressLimiter<Request, Response> = (
  request: Request,
  response: Response,
  next: ExpressNext,
) => Promise<void>

/**
 * Counts a request before its handler runs, and answers 429 in its place when a limit does not admit it. With
 * `key: 'user'` the user is `request.user`, which authentication has put there before.
 *
 * @throws LimitsError `INVALID_ARGUMENT` for options that make no sense
 */
export function createExpressLimiter<
  Request extends ExpressRequest = ExpressRequest,
  Response extends ExpressResponse = ExpressResponse,
>(options: ExpressLimiterOptions<Request, Response>): ExpressLimiter<NoInfer<Request>, NoInfer<Response>> {
  const guard = createGuard<Request>(
    options,
    {
      address: (request) => request.ip,
      user: (request) => (request as { readonly user?: unknown }).user,
    },
    ['onRefused'],
  )
  const { onRefused } = options
  return async (request, response, next) => {
    try {
      const { fields, refusal } = await guard(request)
      for (const [name, value] of Object.entries(fields)) {
        response.setHeader(name, joined(name, value, response.getHeader(name)))
      }
      if (refusal === undefined) return next()
      if (onRefused !== undefined) return void (await onRefused(refusal, request, response, next))
      response.statusCode = refusal.status
      response.setHeader('content-type', problemType)
      response.end(JSON.stringify(refusal.problem))
    } catch (error) {
      next(error)
    }
  }
}

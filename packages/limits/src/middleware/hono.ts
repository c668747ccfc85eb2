/**
 * The limiter in front of Hono: `app.use(createHonoLimiter({ limits, rules }))`, or on one route. Hono runs in many
 * places and has no rule of its own about proxies, so the address is that of the socket where Node serves
 * (`@hono/node-server`), and elsewhere what `address` answers. No forwarding header is believed unasked.
 */
import { createGuard, type GuardOptions, joined, problemType, type Refusal } from './guard.ts'

export type { Fields, GuardOptions, LimitsProblem, Refusal } from './guard.ts'

/** The parts of a context that are used; Hono's own type fits. Name that type in your functions to see all of it. */
export interface HonoContext {
  readonly req: { readonly method: string; readonly path: string; header(name: string): string | undefined }
  readonly env: unknown
  readonly var: object
  readonly res: { readonly headers: { get(name: string): string | null } }
  header(name: string, value: string): void
}

export interface HonoLimiterOptions<Context extends HonoContext = HonoContext> extends GuardOptions<Context> {
  /**
   * The client's address, for example `(c) => getConnInfo(c).remote.address` with the adapter of your runtime, or the
   * header of the one proxy that every request comes through.
   *
   * @defaultValue the address of the socket under `@hono/node-server`
   */
  readonly address?: (context: Context) => string | undefined
  /** Answers in place of the 429 or 503 problem; one that answers undefined lets the request pass. */
  readonly onRefused?: (
    refusal: Refusal,
    context: Context,
  ) => Response | undefined | Promise<Response | undefined>
}

// biome-ignore lint/suspicious/noConfusingVoidType: Hono's own middleware answers so
export type HonoLimiter<Context> = (context: Context, next: () => Promise<void>) => Promise<Response | void>

/**
 * Counts a request before its handler runs, and answers 429 in its place when a limit does not admit it. With
 * `key: 'user'` the user is `c.var.user`, or the token that Hono's `jwt` leaves in `c.var.jwtPayload`.
 *
 * @throws LimitsError `INVALID_ARGUMENT` for options that make no sense
 */
export function createHonoLimiter<Context extends HonoContext = HonoContext>(
  options: HonoLimiterOptions<Context>,
): HonoLimiter<NoInfer<Context>> {
  const { onRefused, address = socketAddress } = options
  const guard = createGuard<Context>(options, { address, user }, ['onRefused', 'address'])
  return async (context, next) => {
    const { fields, refusal } = await guard(context)
    const answer = refusal === undefined ? undefined : await answerOf(refusal, context)
    if (answer === undefined) await next()
    else (context as { res: unknown }).res = answer
    // Only now: a handler that makes its own Response would not carry what was set before it.
    for (const [name, value] of Object.entries(fields)) {
      context.header(name, joined(name, value, context.res.headers.get(name)))
    }
  }

  function answerOf(refusal: Refusal, context: Context) {
    if (onRefused !== undefined) return onRefused(refusal, context)
    const headers = { 'content-type': problemType }
    return new Response(JSON.stringify(refusal.problem), { status: refusal.status, headers })
  }
}

function user({ var: variables }: HonoContext): unknown {
  const { user, jwtPayload } = variables as { readonly user?: unknown; readonly jwtPayload?: unknown }
  return user ?? jwtPayload
}

interface NodeBindings {
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string } }
}

function socketAddress({ env }: HonoContext): string | undefined {
  const bindings = env as (NodeBindings & { readonly server?: NodeBindings }) | undefined
  return (bindings?.server ?? bindings)?.incoming?.socket?.remoteAddress
}

import assert from 'node:assert/strict'
import { it } from 'node:test'
import { serve as serveHono } from '@hono/node-server'
import { getConnInfo } from '@hono/node-server/conninfo'
import { type Context, Hono, type MiddlewareHandler } from 'hono'
import { createLimits, limit } from '../../src/index.ts'
import { createHonoLimiter, type HonoLimiterOptions } from '../../src/middleware/hono.ts'
import { exercise, type Served, type Wanted } from './scenarios.ts'

function optionsOf({ keyHeader, skipHeader, weightHeader, ownAnswer, letPass, ...wanted }: Wanted) {
  const options: HonoLimiterOptions<Context> = {
    ...wanted,
    ...(keyHeader && { key: (c) => c.req.header(keyHeader) }),
    ...(skipHeader && { skip: async (c) => c.req.header(skipHeader) !== undefined }),
    ...(weightHeader && { weight: (c) => Number(c.req.header(weightHeader)) }),
    ...(ownAnswer && { onRefused: (refusal, c) => c.text(refusal.decision?.limit ?? '', 418) }),
    ...(letPass && {
      onRefused: (refusal) => {
        letPass(refusal)
        return undefined
      },
    }),
  }
  return options
}

async function serve(limiters: readonly MiddlewareHandler[]) {
  const app = new Hono<{ Variables: { user: { id: string } } }>()
  let handled = 0
  app.use(async (c, next) => {
    const id = c.req.header('x-user')
    if (id !== undefined) c.set('user', { id })
    await next()
  })
  for (const limiter of limiters) app.use(limiter)
  app.get('/', () => {
    handled += 1
    // A response of the handler's own, which knows nothing of headers that were set before.
    return new Response('{}')
  })
  app.onError((_error, c) => c.body(null, 500))
  const server = serveHono({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' })
  await new Promise((resolve) => server.once('listening', resolve))
  const served: Served = {
    origin: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    handled: () => handled,
    close: () =>
      new Promise((resolve) => {
        if ('closeAllConnections' in server) server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
  return served
}

exercise('Hono', (limiters) => serve(limiters.map((wanted) => createHonoLimiter(optionsOf(wanted)))))

it('Hono is told by the user which header holds the address', async () => {
  const limiter = createHonoLimiter({
    limits: createLimits(),
    rules: [limit('api', '1/min')],
    address: (c) => c.req.header('x-real-ip'),
  })
  const { origin, close } = await serve([limiter])
  const get = async (from: string) => (await fetch(origin, { headers: { 'x-real-ip': from } })).status
  try {
    assert.equal(await get('198.51.100.1'), 200)
    assert.equal(await get('198.51.100.2'), 200)
    assert.equal(await get('198.51.100.2'), 429)
    assert.equal(await get('2001:db8::1'), 200)
    assert.equal(await get('2001:db8::ffff:1'), 429)
  } finally {
    await close()
  }
})

it('a request without an address is an error, not a free pass', async () => {
  const app = new Hono()
  app.use(createHonoLimiter({ limits: createLimits(), rules: [limit('api', '1/min')] }))
  app.get('/', (c) => c.text('passed'))
  app.onError((error, c) => c.text(error.message, 500))
  const answer = await app.request('/')
  assert.equal(answer.status, 500)
  assert.match(await answer.text(), /nobody knows from which address/)
})

it('an answer of a failing handler carries the remaining places too', async () => {
  const app = new Hono()
  app.use(createHonoLimiter({ limits: createLimits(), rules: [limit('api', '2/min')], key: () => 'one' }))
  app.get('/', () => {
    throw new Error('broken')
  })
  app.onError((_error, c) => c.text('sorry', 500))
  const answer = await app.request('/')
  assert.deepEqual([answer.status, answer.headers.get('ratelimit')], [500, '"api";r=1;t=60'])
})

/** Compiled, not run: the limiter is middleware to Hono's own types, with variables of the user's or without. */
export function typesFit(limits: ReturnType<typeof createLimits>): void {
  const app = new Hono<{ Variables: { user: { id: string } } }>()
  app.use(createHonoLimiter({ limits, rules: [] }))
  app.use('/api/*', createHonoLimiter({ limits, rules: [], key: 'user' }))
  app.get('/', createHonoLimiter({ limits, rules: [], key: (c: Context) => c.req.query('key') }), (c) =>
    c.body(''),
  )
  app.use(createHonoLimiter({ limits, rules: [], address: (c: Context) => getConnInfo(c).remote.address }))
  // @ts-expect-error: an option that does not exist
  app.use(createHonoLimiter({ limits, rules: [], max: 5 }))
}

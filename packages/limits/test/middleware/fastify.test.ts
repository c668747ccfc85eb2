import assert from 'node:assert/strict'
import { it } from 'node:test'
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  type onRequestAsyncHookHandler,
} from 'fastify'
import { createLimits, limit } from '../../src/index.ts'
import { createFastifyLimiter, type FastifyLimiterOptions } from '../../src/middleware/fastify.ts'
import { exercise, type Served, type Wanted } from './scenarios.ts'

function optionsOf({ keyHeader, skipHeader, weightHeader, ownAnswer, letPass, ...wanted }: Wanted) {
  const header = (request: FastifyRequest, name: string) => request.headers[name] as string | undefined
  const options: FastifyLimiterOptions<FastifyRequest, FastifyReply> = {
    ...wanted,
    ...(keyHeader && { key: (request) => header(request, keyHeader) }),
    ...(skipHeader && { skip: async (request) => header(request, skipHeader) !== undefined }),
    ...(weightHeader && { weight: (request) => Number(header(request, weightHeader)) }),
    ...(ownAnswer && {
      onRefused: (refusal, _request, reply) => reply.code(418).send(refusal.decision?.limit),
    }),
    ...(letPass && { onRefused: (refusal) => letPass(refusal) }),
  }
  return options
}

async function serve(hooks: readonly onRequestAsyncHookHandler[], settings: FastifyServerOptions = {}) {
  const app = Fastify({ logger: false, ...settings })
  let handled = 0
  app.addHook('onRequest', async (request) => {
    const sub = request.headers['x-user']
    if (sub !== undefined) Object.assign(request, { user: { sub } })
  })
  for (const hook of hooks) app.addHook('onRequest', hook)
  app.get('/', async () => {
    handled += 1
    return {}
  })
  const origin = await app.listen({ port: 0, host: '127.0.0.1' })
  const served: Served = {
    origin,
    handled: () => handled,
    async close() {
      app.server.closeAllConnections()
      await app.close()
    },
  }
  return served
}

exercise('Fastify 5', (limiters) => serve(limiters.map((wanted) => createFastifyLimiter(optionsOf(wanted)))))

it('Fastify itself says which proxy is believed, and all of an IPv6 prefix is one client', async () => {
  const limiter = createFastifyLimiter({ limits: createLimits(), rules: [limit('api', '1/min')] })
  const { origin, close } = await serve([limiter], { trustProxy: '127.0.0.1' })
  const get = async (from: string) => (await fetch(origin, { headers: { 'x-forwarded-for': from } })).status
  try {
    assert.equal(await get('198.51.100.1'), 200)
    assert.equal(await get('198.51.100.2'), 200)
    assert.equal(await get('203.0.113.9, 198.51.100.2'), 429)
    assert.equal(await get('2001:db8::1'), 200)
    assert.equal(await get('2001:db8::ffff:1'), 429)
  } finally {
    await close()
  }
})

/** Compiled, not run: the limiter is a hook to Fastify's own types, for all routes and for one. */
export function typesFit(app: FastifyInstance, limits: ReturnType<typeof createLimits>): void {
  app.addHook('onRequest', createFastifyLimiter({ limits, rules: [] }))
  app.addHook('preHandler', createFastifyLimiter({ limits, rules: [], key: 'user' }))
  app.get('/', { onRequest: createFastifyLimiter({ limits, rules: [] }) }, async () => ({}))
  const rules = (request: FastifyRequest) => (request.routeOptions.url === '/' ? [] : [])
  app.route({
    method: 'GET',
    url: '/one',
    preHandler: [createFastifyLimiter({ limits, rules })],
    handler: async () => ({}),
  })
  // @ts-expect-error: an option that does not exist
  app.addHook('onRequest', createFastifyLimiter({ limits, rules: [], max: 5 }))
}

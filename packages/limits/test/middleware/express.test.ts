import assert from 'node:assert/strict'
import type { AddressInfo } from 'node:net'
import { it } from 'node:test'
import express, { type ErrorRequestHandler, type Request, type RequestHandler, type Response } from 'express'
import { createLimits, limit } from '../../src/index.ts'
import { createExpressLimiter, type ExpressLimiterOptions } from '../../src/middleware/express.ts'
import { exercise, type Served, type Wanted } from './scenarios.ts'

function optionsOf({ keyHeader, skipHeader, weightHeader, ownAnswer, letPass, ...wanted }: Wanted) {
  const options: ExpressLimiterOptions<Request, Response> = {
    ...wanted,
    ...(keyHeader && { key: (request) => request.get(keyHeader) }),
    ...(skipHeader && { skip: async (request) => request.get(skipHeader) !== undefined }),
    ...(weightHeader && { weight: (request) => Number(request.get(weightHeader)) }),
    ...(ownAnswer && {
      onRefused: (refusal, _request, response) => response.status(418).send(refusal.decision?.limit),
    }),
    ...(letPass && {
      onRefused: (refusal, _request, _response, next) => {
        letPass(refusal)
        next()
      },
    }),
  }
  return options
}

async function serve(limiters: readonly RequestHandler[], settings: Record<string, unknown> = {}) {
  const app = express()
  for (const [name, value] of Object.entries(settings)) app.set(name, value)
  let handled = 0
  app.use((request, _response, next) => {
    const id = request.get('x-user')
    if (id !== undefined) Object.assign(request, { user: { id } })
    next()
  })
  app.get('/', ...limiters, (_request, response) => {
    handled += 1
    response.json({})
  })
  const failed: ErrorRequestHandler = (_error, _request, response, _next) => {
    response.status(500).end()
  }
  app.use(failed)
  const server = app.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const served: Served = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    handled: () => handled,
    close: () => new Promise((resolve) => server.closeAllConnections() ?? server.close(() => resolve())),
  }
  return served
}

exercise('Express 5', (limiters) => serve(limiters.map((wanted) => createExpressLimiter(optionsOf(wanted)))))

it('Express itself says which proxy is believed, and all of an IPv6 prefix is one client', async () => {
  const limiter = createExpressLimiter({ limits: createLimits(), rules: [limit('api', '1/min')] })
  const { origin, close } = await serve([limiter], { 'trust proxy': 1 })
  const get = async (from: string) => (await fetch(origin, { headers: { 'x-forwarded-for': from } })).status
  try {
    assert.equal(await get('198.51.100.1'), 200)
    assert.equal(await get('198.51.100.2'), 200)
    assert.equal(await get('forged, 198.51.100.2'), 429)
    assert.equal(await get('2001:db8::1'), 200)
    assert.equal(await get('2001:db8::ffff:1'), 429)
  } finally {
    await close()
  }
})

it('options that make no sense are refused where they are written', () => {
  const limits = createLimits()
  const rules = [limit('api', '1/min')]
  for (const wrong of [
    { rules },
    { limits },
    { limits, rules, key: 'session' },
    { limits, rules, ipv6PrefixBits: 0 },
    { limits, rules, onUnavailable: 'hope' },
  ]) {
    assert.throws(() => createExpressLimiter(wrong as never), { code: 'INVALID_ARGUMENT' })
  }
})

/** Compiled, not run: the limiter is a handler to Express's own types, with and without them in its functions. */
export function typesFit(app: ReturnType<typeof express>, limits: ReturnType<typeof createLimits>): void {
  app.use(createExpressLimiter({ limits, rules: [] }))
  app.use('/api', createExpressLimiter({ limits, rules: [], key: (request) => request.url }))
  app.get('/', createExpressLimiter({ limits, rules: (request: Request) => (request.secure ? [] : []) }))
  // @ts-expect-error: an option that does not exist
  app.use(createExpressLimiter({ limits, rules: [], max: 5 }))
}

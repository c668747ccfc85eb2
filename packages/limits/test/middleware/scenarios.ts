/** The scenarios that every middleware must pass, over real sockets; a framework's test says only how it is served. */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { after, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { createLimits, type Limit, limit, memoryStore, redisStore } from '../../src/index.ts'
import type { GuardOptions, Refusal } from '../../src/middleware/guard.ts'

/** The options that do not depend on the framework; `header` reads one of a request. */
export interface Wanted extends Omit<GuardOptions<never>, 'rules' | 'key' | 'skip' | 'weight'> {
  readonly rules: readonly Limit[]
  readonly keyHeader?: string
  readonly key?: 'ip' | 'user'
  readonly skipHeader?: string
  readonly weightHeader?: string
  /** Answers 418 with the name of the limit. */
  readonly ownAnswer?: boolean
  /** Called with a refusal, which then passes. */
  readonly letPass?: (refusal: Refusal) => void
}

export interface Served {
  readonly origin: string
  /** The number of times that the handler ran. */
  readonly handled: () => number
  readonly close: () => Promise<void>
}

/** One limiter after the other; the header `x-user` makes an authenticated user before them. */
export type Serve = (limiters: readonly Wanted[]) => Promise<Served>

export function exercise(name: string, serve: Serve): void {
  const open: Served[] = []
  after(() => Promise.all(open.map((served) => served.close())))
  const start = async (...limiters: readonly Wanted[]) => {
    const served = await serve(limiters)
    open.push(served)
    return {
      ...served,
      get: (headers: Record<string, string> = {}) => fetch(`${served.origin}/`, { headers }),
    }
  }
  const clock = () => {
    const time = { now: Date.UTC(2026, 10, 21, 12) }
    return { time, limits: createLimits({ store: memoryStore({ now: () => time.now }) }) }
  }
  const twice = [limit('api', '2/min')]

  describe(name, () => {
    it('names the limit that refuses a request of several units, although some are left', async () => {
      const { limits } = clock()
      const rules = [limit('größe', '2/min'), limit('wide', '9/min')]
      const { get } = await start({ limits, rules, weightHeader: 'x-weight' })
      await get({ 'x-weight': '1' })
      const refused = await get({ 'x-weight': '2' })
      assert.equal(refused.headers.get('ratelimit'), '"gr%C3%B6%C3%9Fe";r=1;t=60, "wide";r=8;t=60')
      const { 'violated-policies': violated } = (await refused.json()) as Record<string, unknown>
      assert.deepEqual(violated, ['gr%C3%B6%C3%9Fe'])
    })

    it('passes a request that every limit admits, and answers 429 otherwise', async () => {
      const { time, limits } = clock()
      const { get, handled } = await start({ limits, rules: twice })
      const first = await get()
      assert.equal(first.status, 200)
      assert.equal(first.headers.get('ratelimit-policy'), '"api";q=2;w=60')
      assert.equal(first.headers.get('ratelimit'), '"api";r=1;t=60')
      assert.equal(first.headers.get('retry-after'), null)
      assert.equal(first.headers.get('x-ratelimit-limit'), null)
      time.now += 12_500
      assert.equal((await get()).headers.get('ratelimit'), '"api";r=0;t=48')
      const refused = await get()
      assert.equal(refused.status, 429)
      assert.equal(refused.headers.get('content-type'), 'application/problem+json; charset=utf-8')
      assert.equal(refused.headers.get('retry-after'), '48')
      assert.equal(refused.headers.get('ratelimit'), '"api";r=0;t=48')
      assert.deepEqual(await refused.json(), {
        type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
        title: 'Too many requests',
        status: 429,
        detail: 'Too many requests. Try again in 48s.',
        code: 'RATE_LIMIT_EXCEEDED',
        'violated-policies': ['api'],
      })
      assert.equal(handled(), 2)
      time.now += 48_000
      assert.equal((await get()).status, 200)
    })

    it('says X-RateLimit-* of the tightest window when asked, and nothing when told so', async () => {
      const { time, limits } = clock()
      const rules = [limit('api', '5/min, 2/h')]
      const legacy = await start({ limits, rules, rateLimitHeaders: false, xRateLimitHeaders: true })
      const { headers } = await legacy.get()
      assert.equal(headers.get('x-ratelimit-limit'), '2')
      assert.equal(headers.get('x-ratelimit-remaining'), '1')
      assert.equal(headers.get('x-ratelimit-reset'), String(time.now / 1_000 + 3_600))
      assert.equal(headers.get('ratelimit'), null)
      const silent = await start({ limits, rules, rateLimitHeaders: false })
      await silent.get()
      const refused = await silent.get()
      assert.equal(refused.status, 429)
      assert.equal(refused.headers.get('retry-after'), '3600')
      assert.equal(refused.headers.get('ratelimit-policy'), null)
    })

    it('counts by user, by a function, and by address where neither gives a key', async () => {
      const { limits } = clock()
      const byUser = await start({ limits, rules: [limit('user', '1/min')], key: 'user' })
      for (const user of ['ada', 'bob']) assert.equal((await byUser.get({ 'x-user': user })).status, 200)
      assert.equal((await byUser.get({ 'x-user': 'ada' })).status, 429)
      assert.equal((await byUser.get()).status, 200)
      assert.equal((await byUser.get()).status, 429)
      const byKey = await start({ limits, rules: [limit('key', '1/min')], keyHeader: 'x-api-key' })
      for (const key of ['k1', 'k2']) assert.equal((await byKey.get({ 'x-api-key': key })).status, 200)
      assert.equal((await byKey.get({ 'x-api-key': 'k1' })).status, 429)
      assert.equal((await byKey.get()).status, 200)
      assert.equal(
        (await byKey.get({ 'x-api-key': '' })).status,
        429,
        'an empty key is nobody: the address counts',
      )
      assert.equal(await limits.has('user:ada'), true)
      assert.equal(await limits.has('ip:127.0.0.1'), true)
      assert.equal(await limits.has('k1'), true)
    })

    it('believes no forwarding header unasked', async () => {
      const { limits } = clock()
      const { get } = await start({ limits, rules: [limit('api', '1/min')] })
      assert.equal((await get({ 'x-forwarded-for': '198.51.100.1' })).status, 200)
      assert.equal((await get({ 'x-forwarded-for': '198.51.100.2' })).status, 429)
    })

    it('does not count skipped requests, and counts by weight', async () => {
      const { limits } = clock()
      const { get } = await start({
        limits,
        rules: [limit('api', '3/min')],
        skipHeader: 'x-probe',
        weightHeader: 'x-weight',
      })
      for (let call = 0; call < 5; call += 1) {
        const skipped = await get({ 'x-probe': '1' })
        assert.equal(skipped.status, 200)
        assert.equal(skipped.headers.get('ratelimit'), null)
      }
      assert.equal((await get({ 'x-weight': '2' })).headers.get('ratelimit'), '"api";r=1;t=60')
      assert.equal((await get({ 'x-weight': '2' })).status, 429)
      assert.equal((await get({ 'x-weight': '1' })).status, 200)
    })

    it('leaves a refusal to onRefused, which may let it pass', async () => {
      const { limits } = clock()
      const own = await start({ limits, rules: [limit('own', '0/min')], ownAnswer: true })
      const answer = await own.get()
      assert.equal(answer.status, 418)
      assert.equal(await answer.text(), 'own')
      assert.equal(answer.headers.get('retry-after'), null)
      assert.equal(answer.headers.get('ratelimit'), '"own";r=0')
      assert.equal(own.handled(), 0)
      const refusals: Refusal[] = []
      const lenient = await start({
        limits,
        rules: [limit('own', '0/min')],
        letPass: (refusal) => refusals.push(refusal),
      })
      assert.equal((await lenient.get()).status, 200)
      assert.deepEqual(
        refusals.map(({ status, subject, decision }) => [status, subject, decision?.limit]),
        [[429, 'ip:127.0.0.1', 'own']],
      )
    })

    it('joins its fields to those of a limiter before it', async () => {
      const { limits } = clock()
      const { get } = await start(
        { limits, rules: [limit('all', '100/min')] },
        { limits, rules: [limit('route', '5/min')] },
      )
      const { headers } = await get()
      const members = (field: string) => headers.get(field)?.split(', ').sort()
      assert.deepEqual(members('ratelimit-policy'), ['"all";q=100;w=60', '"route";q=5;w=60'])
      assert.deepEqual(members('ratelimit'), ['"all";r=99;t=60', '"route";r=4;t=60'])
    })

    it('refuses to count one request twice in a stream, where two limiters have limits of one name', async () => {
      const { limits } = clock()
      const api = [limit('api', '4/min')]
      const route = { limits, rules: [limit('api', '2/min')] }
      const doubled = await start({ limits, rules: api }, route)
      assert.deepEqual([(await doubled.get()).status, doubled.handled()], [500, 0])
      // Another stream, other limits, or another request are not the same.
      const named = { limits, rules: [limit('api', '2/min', { stream: 'route' })] }
      assert.equal((await (await start({ limits, rules: api }, named)).get()).status, 200)
      const apart = await start({ limits, rules: api }, { limits: clock().limits, rules: api })
      assert.deepEqual([(await apart.get()).status, (await apart.get()).status], [200, 200])
    })

    it('does as it is told when the store does not answer', async () => {
      const deaf = createServer(() => {})
      await new Promise<void>((resolve) => deaf.listen(0, '127.0.0.1', resolve))
      const { port } = deaf.address() as { port: number }
      const client = new Redis({ port, host: '127.0.0.1', enableReadyCheck: false, maxRetriesPerRequest: 0 })
      client.on('error', () => {})
      try {
        const limits = createLimits({ store: redisStore(client, { deadlineMs: 30 }) })
        const refusing = await start({ limits, rules: twice })
        const refused = await refusing.get()
        assert.equal(refused.status, 503)
        assert.equal(refused.headers.get('retry-after'), '1')
        const { code, status } = (await refused.json()) as { code: string; status: number }
        assert.deepEqual([code, status], ['STORE_UNAVAILABLE', 503])
        assert.equal(refusing.handled(), 0)
        const admitting = await start({ limits, rules: twice, onUnavailable: 'admit' })
        assert.equal((await admitting.get()).status, 200)
        const throwing = await start({ limits, rules: twice, onUnavailable: 'throw' })
        assert.equal((await throwing.get()).status, 500)
        assert.equal(throwing.handled(), 0)
        const fallback = createLimits({
          store: redisStore(client, { deadlineMs: 30, onUnavailable: 'admit' }),
        })
        const lenient = await start({ limits: fallback, rules: twice })
        const admitted = await lenient.get()
        assert.equal(admitted.status, 200)
        assert.equal(admitted.headers.get('ratelimit'), null)
      } finally {
        client.disconnect()
        deaf.close()
      }
    })

    it('admits exactly as many of many at once as the limit says', async () => {
      const { limits } = clock()
      const { get } = await start({ limits, rules: [limit('api', '10/min')] })
      const answers = await Promise.all(Array.from({ length: 40 }, () => get()))
      assert.equal(answers.filter(({ status }) => status === 200).length, 10)
    })
  })
}

/** This table holds the cases of express-rate-limit for its middleware. */
import assert from 'node:assert/strict'
import type { Request } from 'express'
import { createLimits, LimitsError, limit } from '../../src/index.ts'
import { createExpressLimiter } from '../../src/middleware/express.ts'
import { answer, type ExpressWorld, failing, type Options } from './express-world.ts'
import type { PeerCase } from './peer.ts'

type Row = PeerCase<ExpressWorld>

const noInit = 'a store has nothing to be started: it is whole when it is made'
export const byResponse =
  'a request is counted once, before its handler runs, whatever the handler answers; counting by response is not offered'
const noProperty =
  'nothing is written onto the request: what holds and what is left stand in the fields of the answer, and `onRefused` is given the decision'
const noLogger =
  'nothing is logged: an option that makes no sense is thrown, and a store says so to `onError`'

const teapot: Options = {
  onRefused: (_refusal, _request, response) => response.status(420).end('calm down'),
}

/** Answers a refusal with this body, and the status that it has. */
const saying = (body: () => unknown): Options => ({
  onRefused: async ({ status }, _request, response) => response.status(status).send(await body()),
})

async function refusedBody({ limited }: ExpressWorld, options: Options): Promise<[number, string]> {
  const { get } = await limited('1/min', options)
  assert.equal(await (await get()).text(), answer)
  const refused = await get()
  return [refused.status, await refused.text()]
}

const unavailable = new LimitsError('STORE_UNAVAILABLE', 'away')

const answers: readonly Row[] = [
  {
    file: 'middleware',
    behaviour: 'the options that are passed stay as they are',
    run({ limits }) {
      const options = Object.freeze({ limits, rules: Object.freeze([limit('api', '1/min')]) })
      const before = { ...options }
      createExpressLimiter(options)
      assert.deepEqual(options, before)
    },
  },
  { file: 'middleware', behaviour: 'a store is started before the first request', differs: noInit },
  {
    file: 'middleware',
    behaviour: 'a store that starts, fails to start, or throws while starting is told',
    cases: 3,
    differs: noInit,
  },
  {
    file: 'middleware',
    behaviour: 'the first request passes',
    async run({ limited }) {
      const response = await (await limited('1/min')).get()
      assert.deepEqual([response.status, await response.text()], [200, answer])
    },
  },
  {
    file: 'middleware',
    behaviour: 'who has reached the limit is refused',
    run: async ({ limited }) => assert.deepEqual(await (await limited('2/min')).statuses(3), [200, 200, 429]),
  },
  {
    file: 'middleware',
    behaviour: 'who was refused is let in again later',
    async run({ limited, clock }) {
      const { statuses } = await limited('2/50ms')
      assert.deepEqual(await statuses(3), [200, 200, 429])
      clock.now += 60
      assert.deepEqual(await statuses(1), [200])
    },
  },
  {
    file: 'middleware',
    behaviour: 'the same again, window after window',
    async run({ limited, clock }) {
      const { statuses } = await limited('2/50ms')
      for (let window = 0; window < 3; window += 1, clock.now += 60)
        assert.deepEqual(await statuses(3), [200, 200, 429])
    },
  },
  {
    file: 'middleware',
    behaviour: 'a limit of 0 refuses everybody',
    run: async ({ limited }) => assert.deepEqual(await (await limited('0/min')).statuses(1), [429]),
  },
  {
    file: 'middleware',
    behaviour: 'a refusal may have a text of its own',
    by: '`onRefused`',
    run: async (world) =>
      assert.deepEqual(
        await refusedBody(
          world,
          saying(() => 'slowly'),
        ),
        [429, 'slowly'],
      ),
  },
  {
    file: 'middleware',
    behaviour: 'a refusal may have a status of its own',
    by: '`onRefused`',
    run: async (world) => assert.equal((await refusedBody(world, teapot))[0], 420),
  },
  {
    file: 'middleware',
    behaviour: 'a refusal may be JSON',
    by: '`onRefused`',
    async run(world) {
      const body = { error: { code: 'slow' } }
      assert.deepEqual(
        await refusedBody(
          world,
          saying(() => body),
        ),
        [429, JSON.stringify(body)],
      )
    },
  },
  {
    file: 'middleware',
    behaviour: 'a function may make the text',
    by: '`onRefused`',
    run: async (world) =>
      assert.deepEqual(
        await refusedBody(
          world,
          saying(() => ['made'].join()),
        ),
        [429, 'made'],
      ),
  },
  {
    file: 'middleware',
    behaviour: 'a function may promise the text',
    by: '`onRefused`',
    run: async (world) =>
      assert.deepEqual(
        await refusedBody(
          world,
          saying(async () => 'promised'),
        ),
        [429, 'promised'],
      ),
  },
  {
    file: 'middleware',
    behaviour: 'a handler of one’s own answers in place of the refusal',
    by: '`onRefused`',
    run: async (world) => assert.deepEqual(await refusedBody(world, teapot), [420, 'calm down']),
  },
  {
    file: 'middleware',
    behaviour: 'a function says whom a request counts for',
    by: '`key`',
    async run({ limited }) {
      const { statuses } = await limited('2/min', { key: (request) => String(request.query.key) })
      assert.deepEqual(await statuses(2, '?key=1'), [200, 200])
      assert.deepEqual(await statuses(1, '?key=2'), [200])
      assert.deepEqual(await statuses(1, '?key=1'), [429])
      assert.deepEqual(await statuses(2, '?key=2'), [200, 429])
    },
  },
  {
    file: 'middleware',
    behaviour: 'a function skips requests',
    by: '`skip`',
    run: async ({ limited }) =>
      assert.deepEqual(await (await limited('2/min', { skip: () => true })).statuses(3), [200, 200, 200]),
  },
  {
    file: 'middleware',
    behaviour: 'a promise skips requests',
    by: '`skip`',
    run: async ({ limited }) =>
      assert.deepEqual(
        await (await limited('2/min', { skip: async () => true })).statuses(3),
        [200, 200, 200],
      ),
  },
  {
    file: 'middleware',
    behaviour: 'a function says how many are allowed',
    by: '`rules` as a function',
    async run({ limited }) {
      const rules = [limit('api', '2/min')]
      assert.deepEqual(await (await limited('9/min', { rules: () => rules })).statuses(3), [200, 200, 429])
    },
  },
  {
    file: 'middleware',
    behaviour: 'a promise says how many are allowed',
    by: '`rules` as a function',
    async run({ limited }) {
      const rules = [limit('api', '2/min')]
      const { statuses } = await limited('9/min', { rules: async () => rules })
      assert.deepEqual(await statuses(3), [200, 200, 429])
    },
  },
  {
    file: 'middleware',
    behaviour: 'an answer says how many are left, and no wait where there is none',
    by: '`xRateLimitHeaders`',
    async run({ limited }) {
      const { headers } = await (await limited('2/min', { xRateLimitHeaders: true })).get()
      const values = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'retry-after'].map((name) =>
        headers.get(name),
      )
      assert.deepEqual(values, ['2', '1', null])
    },
  },
]

const stores: readonly Row[] = [
  {
    file: 'middleware',
    behaviour: 'a store of one’s own is asked to count',
    by: '`Store.decide`',
    async run({ store, limited }) {
      let asked = 0
      const own = {
        ...store,
        sync: undefined,
        decide: (questions: Parameters<typeof store.decide>[0]) => {
          asked += 1
          return store.decide(questions)
        },
      } as never
      await (await limited('2/min', { limits: createLimits({ store: own }) })).get()
      assert.equal(asked, 1)
    },
  },
  {
    file: 'middleware',
    behaviour: 'a key can be begun anew',
    by: '`limits.reset`',
    async run({ limited, limits }) {
      const { statuses } = await limited('1/min', { key: () => 'ada' })
      assert.deepEqual(await statuses(2), [200, 429])
      await limits.reset('ada')
      assert.deepEqual(await statuses(1), [200])
    },
  },
  {
    file: 'middleware',
    behaviour: 'the count of a key can be read',
    by: '`limits.check`',
    async run({ limited, limits }) {
      await (await limited('5/min', { key: () => 'ada' })).statuses(2)
      assert.equal((await limits.check('ada', [limit('api', '5/min')])).rules[0]!.used, 2)
    },
  },
  {
    file: 'middleware',
    behaviour: 'to read a count throws where an old store cannot',
    differs: 'there is one form of a store, which can do everything',
  },
  {
    file: 'middleware',
    behaviour: 'requests that succeeded, or that failed, are taken back out of the count',
    cases: 15,
    differs: byResponse,
  },
  {
    file: 'middleware',
    behaviour: 'an error of the own handler goes to the error handler',
    by: '`onRefused`',
    async run({ limited }) {
      const { statuses, errors } = await limited('1/min', {
        onRefused() {
          throw new Error('own')
        },
      })
      assert.deepEqual(await statuses(2), [200, 500])
      assert.deepEqual(errors, ['own'])
    },
  },
  {
    file: 'middleware',
    behaviour: 'an error while skipping goes to the error handler',
    by: '`skip`',
    async run({ limited }) {
      const { statuses, errors } = await limited('1/min', {
        skip() {
          throw new Error('own')
        },
      })
      assert.deepEqual([await statuses(1), errors], [[500], ['own']])
    },
  },
  {
    file: 'middleware',
    behaviour: 'the handler finds limit, used and remaining on the request, under a name of choice',
    cases: 2,
    differs: noProperty,
  },
  {
    file: 'middleware',
    behaviour: 'two limiters, by key and for everybody, count and refuse apart',
    by: 'the `RateLimit` field, where there a property is read',
    async run({ limits, serve }) {
      const byKey = createExpressLimiter({
        ...teapot,
        limits,
        rules: [limit('key', '2/min')],
        key: (request: Request) => String(request.query.key),
      })
      const forAll = createExpressLimiter({ limits, rules: [limit('all', '5/min')], key: () => 'all' })
      const { get } = await serve(byKey, forAll)
      const seen = async (key: number) => {
        const { status, headers } = await get(`?key=${key}`)
        return [
          status,
          ...[...headers.get('ratelimit')!.matchAll(/;r=(\d)/g)].map(([, left]) => Number(left)),
        ]
      }
      assert.deepEqual(await seen(1), [200, 1, 4])
      assert.deepEqual(await seen(2), [200, 1, 3])
      assert.deepEqual(await seen(1), [200, 0, 2])
      assert.deepEqual(await seen(2), [200, 0, 1])
      assert.deepEqual(await seen(1), [420, 0])
      assert.deepEqual(await seen(3), [200, 1, 0])
      assert.deepEqual(await seen(3), [429, 0, 0])
    },
  },
  {
    file: 'middleware',
    behaviour: 'nothing passes when the store throws',
    async run({ limited, store }) {
      const { statuses, errors } = await limited('1/min', { limits: failing(store, new Error('broken')) })
      assert.deepEqual([await statuses(1), errors], [[500], ['broken']])
      const away = await limited('1/min', { limits: failing(store, unavailable), onUnavailable: 'throw' })
      assert.deepEqual(await away.statuses(1), [500])
    },
  },
  {
    file: 'middleware',
    behaviour: 'when told so, everything passes while the store fails',
    by: "`onUnavailable: 'admit'`, for a store that cannot be asked; another error is a fault and is thrown",
    async run({ limited, store }) {
      const { statuses } = await limited('1/min', {
        limits: failing(store, unavailable),
        onUnavailable: 'admit',
      })
      assert.deepEqual(await statuses(2), [200, 200])
    },
  },
  {
    file: 'middleware',
    behaviour: 'next is called once when the store fails and everything passes',
    by: "`onUnavailable: 'admit'`",
    async run({ store }) {
      let called = 0
      const limits = failing(store, unavailable)
      const limiter = createExpressLimiter({ limits, rules: [limit('api', '1/min')], onUnavailable: 'admit' })
      await limiter({ ip: '192.0.2.1' } as never, {} as never, () => {
        called += 1
      })
      assert.equal(called, 1)
    },
  },
  {
    file: 'middleware',
    behaviour: 'a logger of one’s own takes the place of the console',
    cases: 2,
    differs: noLogger,
  },
]

export const middlewareCases: readonly Row[] = [...answers, ...stores]

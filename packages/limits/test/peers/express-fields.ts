/** This table holds the cases of express-rate-limit for the fields of an answer, its options and its advice. */
import assert from 'node:assert/strict'
import type { RequestHandler } from 'express'
import { createLimits, limit } from '../../src/index.ts'
import { createExpressLimiter } from '../../src/middleware/express.ts'
import type { ExpressWorld, Options } from './express-world.ts'
import type { PeerCase } from './peer.ts'

type Row = PeerCase<ExpressWorld>

const oldDrafts = 'one form is sent, that of draft 10; `RateLimit` and `RateLimit-Policy` are lists there'
const names = 'a limit has the name that it was given, and no partition key (`pk`) is told'

/** Their option is refused, and the message says which was meant. */
const refusesOption = (options: object, meant: RegExp) => (world: ExpressWorld) =>
  assert.throws(
    () => createExpressLimiter({ limits: world.limits, rules: [limit('api', '5/min')], ...options } as never),
    { code: 'INVALID_ARGUMENT', message: meant },
  )

async function fieldsOf({ limited }: ExpressWorld, window: string, options: Options, requests = 1) {
  const { get } = await limited(window, options)
  let response = await get()
  for (let call = 1; call < requests; call += 1) response = await get()
  return (name: string) => response.headers.get(name)
}

const headers: readonly Row[] = [
  {
    file: 'headers',
    behaviour: 'X-RateLimit-Limit, -Remaining and -Reset',
    by: '`xRateLimitHeaders`',
    async run(world) {
      const field = await fieldsOf(world, '5/min', { xRateLimitHeaders: true })
      const values = ['limit', 'remaining', 'reset'].map((name) => field(`x-ratelimit-${name}`))
      assert.deepEqual(values, ['5', '4', String(world.clock.now / 1_000 + 60)])
    },
  },
  { file: 'headers', behaviour: 'the fields of draft 6', differs: oldDrafts },
  { file: 'headers', behaviour: 'the fields of draft 7', differs: oldDrafts },
  {
    file: 'headers',
    behaviour: 'the fields of draft 8 with a name made of the numbers',
    differs: names,
    async run(world) {
      const field = await fieldsOf(world, '5/2h', {})
      assert.equal(field('ratelimit-policy'), '"api";q=5;w=7200')
      assert.equal(field('ratelimit'), '"api";r=4;t=7200')
    },
  },
  {
    file: 'headers',
    behaviour: 'several limits stand in one field',
    by: 'several limits of one limiter; without `pk`',
    async run({ limits, serve }) {
      const windows = ['1/5s', '5/min', '6/h', '7/day', '8/2day']
      const rules = windows.map((window, index) => limit(`l${index}`, window))
      const { headers: sent } = await (await serve(createExpressLimiter({ limits, rules }))).get()
      assert.equal(
        sent.get('ratelimit-policy'),
        '"l0";q=1;w=5, "l1";q=5;w=60, "l2";q=6;w=3600, "l3";q=7;w=86400, "l4";q=8;w=172800',
      )
      assert.equal(
        sent.get('ratelimit'),
        '"l0";r=0;t=5, "l1";r=4;t=60, "l2";r=5;t=3600, "l3";r=6;t=86400, "l4";r=7;t=172800',
      )
    },
  },
  {
    file: 'headers',
    behaviour: 'the name of a limit may be chosen',
    by: 'the name of the limit; without `pk`',
    async run(world) {
      const field = await fieldsOf(world, '5/h', { rules: [limit('calm', '5/2h')] })
      assert.equal(field('ratelimit-policy'), '"calm";q=5;w=7200')
      assert.equal(field('ratelimit'), '"calm";r=4;t=7200')
    },
  },
  {
    file: 'headers',
    behaviour: 'a refusal says when to come again',
    run: async (world) => assert.equal((await fieldsOf(world, '1/min', {}, 2))('retry-after'), '60'),
  },
  {
    file: 'headers',
    behaviour: 'without any fields a refusal does not say when to come again',
    differs: '`Retry-After` goes with every refusal: without it clients come back at once',
    run: async (world) =>
      assert.equal((await fieldsOf(world, '1/min', { rateLimitHeaders: false }, 2))('ratelimit'), null),
  },
  {
    file: 'headers',
    behaviour: 'nothing is set on an answer that has begun',
    differs: 'a limiter stands before whatever answers; behind it, Node’s error goes to the error handler',
    async run({ limits, serve }) {
      const early: RequestHandler = (_request, response, next) => {
        response.send('early')
        next()
      }
      const { get, errors } = await serve(
        early,
        createExpressLimiter({ limits, rules: [limit('api', '5/min')] }),
      )
      assert.equal(await (await get()).text(), 'early')
      assert.match(errors[0]!, /headers/)
    },
  },
  {
    file: 'headers',
    behaviour: 'an unknown draft sends nothing',
    differs: 'an option that makes no sense is refused where it is written',
    run: refusesOption({ rateLimitHeaders: 'draft-99' }, /rateLimitHeaders/),
  },
  {
    file: 'headers',
    behaviour: 'a store that knows no reset is told with the length of the window',
    differs: 'every decision knows when it frees',
  },
  {
    file: 'headers',
    behaviour: 'X-RateLimit-* can be read by a program',
    by: 'a reader of ours',
    async run(world) {
      const field = await fieldsOf(world, '5/min', { rateLimitHeaders: false, xRateLimitHeaders: true })
      const read = (name: string) => Number(field(`x-ratelimit-${name}`))
      const used = read('limit') - read('remaining')
      const resetAt = new Date(read('reset') * 1_000)
      assert.deepEqual(
        [used, read('remaining'), read('limit'), resetAt],
        [1, 4, 5, new Date(world.clock.now + 60_000)],
      )
    },
  },
  {
    file: 'headers',
    behaviour: 'the fields of drafts 6 and 7 can be read by a program',
    cases: 2,
    differs: oldDrafts,
  },
  {
    file: 'headers',
    behaviour: 'draft 6 tells a reset of 0 where a window is just over',
    differs: oldDrafts,
  },
]

const options: readonly Row[] = [
  {
    file: 'options',
    behaviour: 'no options at all are enough',
    differs: 'whoever limits says what: `limits` and `rules` are needed',
  },
  {
    file: 'options',
    behaviour: 'an option that is undefined is as if left out',
    async run({ limited }) {
      const options = { key: undefined, weight: undefined, skip: undefined } as never
      assert.deepEqual(await (await limited('1/min', options)).statuses(2), [200, 429])
    },
  },
  {
    file: 'options',
    behaviour: 'an old name for the fields is understood',
    differs: 'an option that does not exist is refused',
    run: refusesOption({ headers: false }, /no option 'headers'/),
  },
  {
    file: 'options',
    behaviour: 'the count may be called max',
    differs: 'the count stands in `rules`; the other words are refused with that one',
    run: refusesOption({ max: 7 }, /'rules'/),
  },
  {
    file: 'options',
    behaviour: 'the count may be called limit',
    differs: 'the count stands in `rules`; the other words are refused with that one',
    run: refusesOption({ limit: 7 }, /'rules'/),
  },
  {
    file: 'options',
    behaviour: 'what is no store is refused',
    run: () =>
      assert.throws(() => createLimits({ store: { invalid: true } as never }), {
        code: 'INVALID_ARGUMENT',
        message: /store/,
      }),
  },
  {
    file: 'options',
    behaviour: 'a store whose start is no function is refused',
    differs: 'a store has nothing to be started',
  },
  {
    file: 'options',
    behaviour: 'a choice of fields that does not exist is refused',
    by: 'refused when it runs; there by the types',
    run: refusesOption({ rateLimitHeaders: 'no-draft' }, /rateLimitHeaders/),
  },
  { file: 'options', behaviour: 'what is no logger is refused', differs: 'there is no logger' },
]

const advice: readonly Row[] = [
  {
    file: 'validation',
    behaviour: 'a request counted twice over one store is told',
    by: 'an error in place of advice, told with the first request',
    async run({ limits, serve }) {
      const limiter = () => createExpressLimiter({ limits, rules: [limit('api', '9/min')] })
      const { statuses, errors } = await serve(limiter(), limiter())
      assert.deepEqual(await statuses(1), [500])
      assert.match(errors[0]!, /second limiter/)
    },
  },
  {
    file: 'validation',
    behaviour: 'a request counted once over each of two memory stores is no fault',
    async run({ serve }) {
      const limiter = () => createExpressLimiter({ limits: createLimits(), rules: [limit('api', '9/min')] })
      assert.deepEqual(await (await serve(limiter(), limiter())).statuses(1), [200])
    },
  },
  {
    file: 'validation',
    behaviour: 'several requests of one key are no fault',
    run: async ({ limited }) => assert.deepEqual(await (await limited('9/min')).statuses(2), [200, 200]),
  },
  {
    file: 'validation',
    behaviour: 'an option that does not exist is told',
    by: 'an error in place of advice',
    run: refusesOption({ foo: 1 }, /no option 'foo'/),
  },
  {
    file: 'validation',
    behaviour: 'part of a bit is no length of a prefix',
    by: 'an error in place of advice',
    run: refusesOption({ ipv6PrefixBits: 48.5 }, /ipv6PrefixBits/),
  },
  {
    file: 'validation',
    behaviour: 'everything else that is advised of: proxies, addresses, counts of a store, old options',
    cases: 59,
    differs:
      'no advice is logged, and Express’s own `trust proxy` decides whose word about an address counts',
  },
  { file: 'logger', behaviour: 'what the console is told', cases: 4, differs: 'nothing is logged' },
  {
    file: 'types',
    behaviour: 'the declarations name Express’s request as it is',
    differs: 'Express’s types are not in the declarations: `ExpressRequest` says what is asked of a request',
  },
]

export const fieldCases: readonly Row[] = [...headers, ...options, ...advice]

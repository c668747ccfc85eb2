import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  createLimits,
  type DecideMany,
  limit,
  memoryStore,
  NotificationRateLimiter,
  type Question,
  tokenBucket,
} from '../src/index.ts'
import { createExpressLimiter } from '../src/middleware/express.ts'
import { createFastifyLimiter } from '../src/middleware/fastify.ts'
import { createHonoLimiter } from '../src/middleware/hono.ts'

const limits = createLimits()
const rules = [limit('two', '2/day')]

for (const [wrong, meant, call] of [
  ['cost', 'weight', () => limits.sync.take('a', rules, { cost: 5 } as never)],
  ['points', 'weight', () => limits.sync.check('a', rules, { points: 5 } as never)],
  ['Weight', 'weight', () => limits.sync.force('a', 'id', rules, { Weight: 5 } as never)],
  ['after', 'notBefore', () => limits.sync.reserve('a', rules, { id: 'x', after: 5 } as never)],
  ['horizon', 'horizonMs', () => limits.sync.preview('a', rules, { horizon: 5 } as never)],
  ['forbid', 'forbidden', () => limits.sync.fire('a', 'id', rules, { forbid: [] } as never)],
  ['marginms', 'marginMs', () => createLimits({ marginms: 5 } as never)],
  ['stores', 'store', () => new NotificationRateLimiter({ stores: 5 } as never)],
  ['capa', 'capacity', () => tokenBucket({ capacity: 5, refill: '1/s', capa: 5 } as never)],
  ['keyGenerator', 'key', () => createExpressLimiter({ limits, rules, keyGenerator: () => 'x' } as never)],
  ['max', 'rules', () => createFastifyLimiter({ limits, rules, max: 5 } as never)],
  ['handler', 'onRefused', () => createHonoLimiter({ limits, rules, handler: () => {} } as never)],
] as const) {
  test(`the option ${wrong} is refused with ${meant}, which was meant, and nothing is counted`, () => {
    const words = new RegExp(`there is no option '${wrong}', did you mean '${meant}'\\?`)
    assert.throws(call, (error: { code?: string; message: string }) => {
      assert.equal(error.code, 'INVALID_ARGUMENT')
      assert.match(error.message, words)
      return true
    })
    assert.equal(limits.sync.has('a'), false)
  })
}

test('an option of another call is refused, and one that looks like none is answered with all there are', () => {
  assert.throws(
    () => limits.sync.take('a', rules, { horizonMs: 5 } as never),
    /no option 'horizonMs'; There are weight, id$/,
  )
  assert.throws(
    () => limits.sync.take('a', rules, { constructor: 5 } as never),
    /no option 'constructor'; There are/,
  )
})

test('calls of many are checked one by one', async () => {
  await assert.rejects(limits.takeMany([{ subject: 'a', rules, cost: 5 } as never]), /did you mean 'weight'/)
})

test('a store that lies elsewhere refuses the option of another call, too', async () => {
  const { sync, ...store } = memoryStore()
  const elsewhere = createLimits({ store })
  await assert.rejects(elsewhere.check('a', rules, { id: 'n' } as never), /no option 'id'; There are weight$/)
  await assert.rejects(elsewhere.take('a', rules, null as never), /options are an object with weight, id$/)
})

test('a store that wraps another with a decide of its own is asked everything', async () => {
  const inner = memoryStore()
  const asked: number[] = []
  const one: DecideMany = Object.assign(inner.decide, {
    one: async (question: Question) => (await inner.decide([question]))[0]!,
  })
  const { sync, ...store } = { ...inner, decide: one }
  const decide = (questions: readonly Question[]) => {
    asked.push(questions.length)
    return store.decide(questions)
  }
  const wrapping = createLimits({ store: { ...store, decide } })
  assert.equal((await wrapping.take('a', rules)).allowed, true)
  assert.equal((await wrapping.takeMany([{ subject: 'a', rules }]))[0]!.allowed, true)
  assert.deepEqual(asked, [1, 1])
})

/** Requests that send nothing have rate limits of their own; above them no work is done. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Window } from '@sluice/limits'
import { createRequestLimits } from '../../src/http/request-limits.ts'
import { startStub } from './stub.ts'

const three: readonly Window[] = [{ max: 3, windowMs: 60_000, text: '3/min' }]
const ratesOf = (tenant: string) =>
  tenant === 'free' ? { reads: [], writes: [] } : { reads: three, writes: three }
const stub = await startStub({ parts: { requestLimits: createRequestLimits({ ratesOf }) } })

const as = (tenant: string) => ({ 'x-tenant-id': tenant })

test('lists, timelines and searches above the rate are refused, a read by id is not', async () => {
  for (const path of ['/notifications', '/recipients/ada/timeline', '/notifications?category=news'])
    assert.equal((await stub.ask('GET', path, undefined, as('one'))).status, 200, path)
  for (const path of ['/notifications', '/recipients/ada/timeline', '/dead-letters']) {
    const { status, body, headers } = await stub.ask('GET', path, undefined, as('one'))
    assert.deepEqual([status, body.code], [429, 'REQUEST_LIMIT_EXCEEDED'], path)
    assert.ok(Number(headers.get('retry-after')) > 50, headers.get('retry-after') ?? 'none')
  }
  assert.equal((await stub.ask('GET', '/notifications/none', undefined, as('one'))).status, 404)
  assert.equal((await stub.ask('GET', '/recipients/ada/limits', undefined, as('one'))).status, 200)
  assert.equal(
    (await stub.ask('GET', '/notifications', undefined, as('two'))).status,
    200,
    'others are not hit',
  )
})

test('a change above the rate is not made, and reads have a rate of their own', async () => {
  for (const email of ['a@example.com', 'b@example.com', 'c@example.com'])
    assert.equal((await stub.ask('PUT', '/recipients/eve', { email }, as('writer'))).status, 200)
  for (const [method, path, body] of [
    ['PUT', '/recipients/eve', { email: 'd@example.com' }],
    ['PATCH', '/recipients/eve', { email: 'd@example.com' }],
    ['DELETE', '/notifications/none', undefined],
    ['DELETE', '/jobs/none', undefined],
    ['POST', '/dead-letters/redrive', { all: true }],
    ['POST', '/decisions', {}],
  ] as const) {
    const { status, body: problem } = await stub.ask(method, path, body, as('writer'))
    assert.deepEqual([status, problem.code], [429, 'REQUEST_LIMIT_EXCEEDED'], `${method} ${path}`)
  }
  assert.equal(
    (await stub.ask('GET', '/recipients/eve', undefined, as('writer'))).body.email,
    'c@example.com',
  )
  assert.deepEqual(stub.redrives, [])
  assert.equal((await stub.ask('GET', '/notifications', undefined, as('writer'))).status, 200)
})

test('requests that send notifications are not limited here', async () => {
  for (let count = 0; count < 5; count += 1)
    assert.equal((await stub.ask('POST', '/notifications', {}, as('sender'))).status, 400)
})

test('a window is exact, a refusal does not count, and the state of an idle tenant is released', () => {
  let now = 0
  const limits = createRequestLimits({ ratesOf, now: () => now })
  const take = (): number | 'done' => {
    try {
      limits.take('reads', 'one')
      return 'done'
    } catch (error) {
      return (error as { retryAfterMs: number }).retryAfterMs
    }
  }
  assert.deepEqual([take(), take(), take(), take(), take()], ['done', 'done', 'done', 60_000, 60_000])
  now = 59_999
  assert.equal(take(), 1)
  now = 60_000
  assert.equal(take(), 'done')
})

test('several processes hold a rate together; while nobody can count, each holds it by itself', async () => {
  const asked: number[] = []
  let left: number | undefined = 2
  const limits = createRequestLimits({
    ratesOf,
    now: () => 0,
    async take(_kind, _tenant, _rules, count) {
      asked.push(count)
      if (left === undefined) throw new Error('away')
      const taken = Math.min(count, left)
      left -= taken
      return { taken, waitMs: taken === count ? 0 : 7_000 }
    },
  })
  const takeAll = (count: number) =>
    Promise.all(
      Array.from({ length: count }, () =>
        Promise.resolve(limits.take('reads', 'one')).then(
          () => 'done',
          (error: { retryAfterMs: number }) => error.retryAfterMs,
        ),
      ),
    )
  assert.deepEqual(await takeAll(4), ['done', 'done', 7_000, 7_000])
  // Requests that come while a question is under way go together in the next one.
  assert.deepEqual(asked, [1, 3])
  assert.equal(limits.counted('reads', 'one').length, 2)
  left = undefined
  assert.deepEqual(await takeAll(200), ['done', ...Array(199).fill(60_000)])
  assert.deepEqual(asked, [1, 3, 1], 'those that waited do not ask once more, each for as long')
  assert.deepEqual(await limits.take('reads', 'free'), undefined)
})

/** The routes of replays: what they take, what they refuse, and what they answer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ReplayRequest } from '../../../src/http/routes/replays.ts'
import { startStub } from '../stub.ts'
import { noPools } from '../stub-holds.ts'

const asked: ReplayRequest[] = []
const stub = await startStub({
  parts: {
    replays: {
      ...noPools.replays,
      start(request) {
        asked.push(request)
        return noPools.replays.start(request)
      },
    },
  },
})
const policy = { version: 1, limits: [{ name: 'a', for: 'any', max: ['1/s'] }] }
const period = { from: '2026-11-15T00:00:00Z', to: '2026-11-22T00:00:00Z' }

test('a replay is started, asked for and removed', async () => {
  const started = await stub.ask('POST', '/replays', { ...period, policy, tenant: 'acme', sample: 0.1 })
  assert.equal(started.status, 202)
  assert.deepEqual([started.body.status, started.body.progress], ['running', 0])
  const { from, to, tenant, sample, against } = asked.at(-1)!
  assert.deepEqual([from, to], [Date.parse(period.from), Date.parse(period.to)])
  assert.deepEqual([tenant, sample, against], ['acme', 0.1, undefined])
  const path = `/replays/${started.body.replayId}`
  const found = await stub.ask('GET', path)
  assert.equal(found.status, 200)
  assert.deepEqual([found.body.status, found.body.result], ['done', { requests: 0 }])
  assert.equal((await stub.ask('DELETE', path)).status, 204)
  for (const method of ['GET', 'DELETE']) {
    const { status, body } = await stub.ask(method, path)
    assert.deepEqual([status, body.code], [404, 'NOT_FOUND'])
  }
})

test('a repeated request with its key gets the first answer, and starts no second replay', async () => {
  const key = { 'idempotency-key': 'replay-1' }
  const first = await stub.ask('POST', '/replays', { ...period, policy }, key)
  const starts = asked.length
  const second = await stub.ask('POST', '/replays', { ...period, policy }, key)
  assert.deepEqual([second.status, second.body], [202, first.body])
  assert.equal(asked.length, starts)
  const other = await stub.ask('POST', '/replays', { ...period, policy, sample: 0.5 }, key)
  assert.deepEqual([other.status, other.body.code], [422, 'IDEMPOTENCY_MISMATCH'])
  assert.equal(asked.length, starts)
})

test('a replay without a period, of one that ends before it begins, or of a wrong policy is refused', async () => {
  const broken = { version: 1, limits: [{ name: 'a', for: 'any', max: ['often'] }] }
  for (const [body, path] of [
    [{ policy }, '/from'],
    [{ ...period, to: period.from, policy }, '/to'],
    [{ ...period, policy: broken }, '/policy'],
    [{ ...period, policy, against: broken }, '/against'],
    [{ ...period, policy, sample: 2 }, '/sample'],
    [{ ...period, policy, providers: 'recorded' }, '/providers'],
  ] as const) {
    const { status, body: problem } = await stub.ask('POST', '/replays', body)
    assert.deepEqual([status, problem.code], [400, 'INVALID_REQUEST'], path)
    const [error] = problem.errors as readonly { path: string }[]
    assert.ok(error?.path.startsWith(path) || error?.path === '', JSON.stringify(problem.errors))
  }
})

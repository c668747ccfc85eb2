/** A repeated request with the same key gets the first answer, and nothing is accepted twice. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { SluiceError } from '../../src/errors.ts'
import { message, startStub } from './stub.ts'

const stub = await startStub()
const post = (body: unknown, key: string, headers: Record<string, string> = {}) =>
  stub.ask('POST', '/notifications', body, { 'idempotency-key': key, ...headers })

test('the same key with the same body gets the stored answer', async () => {
  const first = await post(message, 'same')
  const before = stub.notifications.size
  const second = await post(message, 'same')
  assert.deepEqual([second.status, second.text], [first.status, first.text])
  assert.equal(first.headers.get('idempotency-replayed'), null)
  assert.equal(second.headers.get('idempotency-replayed'), 'true')
  assert.equal(stub.notifications.size, before)
})

test('the 429 of a queued notification is stored too, and its Retry-After counts down', async () => {
  let now = Date.UTC(2026, 10, 21)
  stub.now = () => now
  stub.verdict = () => ({
    status: 'scheduled',
    queuedBehind: 'module',
    decision: { outcome: 'delay', reason: 'module_limit', at: now + 18_000, policyVersion: 'p1', rules: [] },
  })
  const first = await post(message, 'late')
  now += 10_000
  const second = await post(message, 'late')
  now += 60_000
  const third = await post(message, 'late')
  stub.verdict = () => ({})
  stub.now = Date.now
  assert.deepEqual(
    [first, second, third].map((reply) => reply.headers.get('retry-after')),
    ['18', '8', '1'],
  )
  assert.equal(second.status, 429)
  assert.equal(second.text, first.text)
  assert.equal(second.headers.get('content-type'), 'application/problem+json; charset=utf-8')
})

test('the same key with another body is a mismatch', async () => {
  await post(message, 'other')
  const { status, body } = await post({ ...message, actor: 'x' }, 'other')
  assert.deepEqual([status, body.code], [422, 'IDEMPOTENCY_MISMATCH'])
})

test('a repetition finds the stored answer though the mark of its request was left by a process that died', async () => {
  const first = await post(message, 'left')
  const { tenant, module, method, path, requestHash } = stub.answers.find(({ key }) => key === 'left')!
  const mark = { tenant, module, method, path, key: 'left' }
  assert.equal(await stub.once.begin(mark, requestHash), 'new')
  const second = await post(message, 'left')
  assert.deepEqual([second.status, second.text], [first.status, first.text])
  const other = await post({ ...message, actor: 'x' }, 'left')
  assert.deepEqual([other.status, other.body.code], [422, 'IDEMPOTENCY_MISMATCH'])
  await stub.once.end(mark)
})

test('a repetition finds the stored answer while another body with the same key is about to be refused', async () => {
  const first = await post(message, 'beside')
  const { tenant, module, method, path } = stub.answers.find(({ key }) => key === 'beside')!
  const mark = { tenant, module, method, path, key: 'beside' }
  assert.equal(await stub.once.begin(mark, 'another body'), 'new')
  const second = await post(message, 'beside')
  await stub.once.end(mark)
  assert.deepEqual([second.status, second.text], [first.status, first.text])
})

test('a second request is refused while the first is in progress', async () => {
  const gate = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  stub.before = () => {
    reached.resolve()
    return gate.promise
  }
  const first = post(message, 'slow')
  await reached.promise
  const second = await post(message, 'slow')
  const third = await post({ ...message, actor: 'x' }, 'slow')
  gate.resolve()
  stub.before = () => {}
  assert.deepEqual([second.status, second.body.code], [409, 'IDEMPOTENCY_IN_PROGRESS'])
  assert.equal(second.headers.get('retry-after'), '1')
  assert.equal(third.status, 422)
  assert.equal((await first).status, 202)
  assert.equal((await post(message, 'slow')).text, (await first).text)
})

test('an error is not stored: the next request with the key runs anew', async () => {
  stub.before = () => {
    throw new SluiceError('QUEUE_FULL', 'Full.')
  }
  assert.equal((await post(message, 'full')).status, 503)
  stub.before = () => {}
  assert.equal((await post({ ...message, channel: 'fax' }, 'full')).status, 400)
  assert.equal((await post(message, 'full')).status, 202)
})

test('a key that another process has just written is answered from the store', async () => {
  const first = await post(message, 'race')
  const stored = stub.answers.pop()!
  stub.before = () => {
    stub.answers.push(stored)
    throw new SluiceError('IDEMPOTENCY_IN_PROGRESS', 'Just accepted.')
  }
  const second = await post(message, 'race')
  stub.answers.pop()
  const other = await post({ ...message, actor: 'x' }, 'race')
  stub.before = () => {
    throw new SluiceError('IDEMPOTENCY_IN_PROGRESS', 'Just accepted.')
  }
  stub.answers.pop()
  const unresolved = await post(message, 'race')
  stub.before = () => {}
  assert.deepEqual([second.status, second.text], [202, first.text])
  assert.equal(other.status, 422)
  assert.equal(unresolved.status, 409)
})

test('a request that another process has just accepted is not refused for what that one took', async () => {
  const first = await post(message, 'last place')
  const stored = stub.answers.pop()!
  stub.before = () => {
    stub.answers.push(stored)
    throw new SluiceError('QUEUE_FULL', 'Full.')
  }
  const second = await post(message, 'last place')
  stub.before = () => {}
  assert.deepEqual([second.status, second.text], [202, first.text])
})

test('the stored answer is the sent one, to the letter, also where the wall clock is set meanwhile', async () => {
  let aheadMs = 0
  const now = Date.UTC(2026, 10, 21)
  const moved = await startStub({
    parts: {
      clock: {
        now: () => now,
        monotonic: () => now,
        // Each look finds that it was set forward.
        aheadMs: () => (aheadMs += 1_000),
        at: () => () => {},
        soon: (callback) => setImmediate(callback),
      },
    },
  })
  moved.now = () => now
  const batch = { recipients: [message.recipient], channel: 'email', content: message.content }
  for (const [path, body] of [
    ['/notifications', message],
    ['/notifications/batch', batch],
  ] as const) {
    const headers = { 'idempotency-key': path }
    const first = await moved.ask('POST', path, body, headers)
    assert.equal((await moved.ask('POST', path, body, headers)).text, first.text)
  }
})

test('what is answered behind its work is answered as the process that has stored its answer first', async () => {
  const reported = Promise.withResolvers<void>()
  const both = await startStub({ parts: { feedback: { report: () => reported.promise } } })
  const event = { type: 'click', notificationId: 'n1', at: '2026-11-21T00:00:00Z' }
  const report = (body: unknown) => both.ask('POST', '/feedback', body, { 'idempotency-key': 'both' })
  const first = report([event, { ...event, notificationId: 'n2' }])
  await setTimeout(50)
  // The other one has stored its answer to another body.
  both.answers.push({
    ...{ tenant: 'default', module: 'default', method: 'POST', path: '/api/v1/feedback', key: 'both' },
    ...{ requestHash: 'another body', status: 202, body: '{"accepted":1}', createdAt: Date.now() },
  })
  reported.resolve()
  const { status, body } = await first
  assert.deepEqual([status, body.code], [422, 'IDEMPOTENCY_MISMATCH'])
})

test('a key belongs to its tenant, module and path', async () => {
  const first = await post(message, 'mine')
  for (const headers of [{ 'x-tenant-id': 'other' }, { 'x-module-id': 'other' }]) {
    const reply = await post({ ...message, actor: 'y' }, 'mine', headers)
    assert.equal(reply.status, 202)
    assert.notEqual(reply.body.notificationId, first.body.notificationId)
  }
  const batch = { recipients: [message.recipient], channel: 'email', content: message.content }
  assert.equal(
    (await stub.ask('POST', '/notifications/batch', batch, { 'idempotency-key': 'mine' })).status,
    202,
  )
})

for (const key of ['', 'x'.repeat(256), 'tab\tinside']) {
  test(`the key ${JSON.stringify(key.slice(0, 12))} is refused on every POST`, async () => {
    for (const [path, body] of [
      ['/notifications', message],
      ['/decisions', message],
      ['/dead-letters/redrive', { all: true }],
      ['/policy/validate', {}],
    ] as const) {
      const { status, body: problem } = await stub.ask('POST', path, body, { 'idempotency-key': key })
      assert.deepEqual([status, problem.errors[0]?.path], [400, '/Idempotency-Key'])
    }
  })
}

test('a repeated redrive redrives nothing again', async () => {
  const headers = { 'idempotency-key': 'redrive' }
  const answer = { redriven: 3, left: [] }
  const everything = { all: true }
  assert.deepEqual((await stub.ask('POST', '/dead-letters/redrive', everything, headers)).body, answer)
  assert.deepEqual((await stub.ask('POST', '/dead-letters/redrive', everything, headers)).body, answer)
  assert.equal(stub.redrives.length, 1)
})

/** The routes of operators, and their refusal for others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../../src/errors.ts'
import { message, startStub } from '../stub.ts'

const stub = await startStub()

test('dead letters are listed and redriven, all or some', async () => {
  const { body } = await stub.ask('POST', '/notifications', message)
  const { notificationId } = body
  stub.notifications.set(notificationId, { ...stub.notifications.get(notificationId)!, status: 'dead' })
  const listed = await stub.ask('GET', '/dead-letters?cause=shed&channel=email&tenant=default&limit=10')
  assert.deepEqual(
    listed.body.items.map((item) => [item.notificationId, item.status]),
    [[notificationId, 'dead']],
  )
  const all = { all: true, dryRun: true }
  assert.deepEqual((await stub.ask('POST', '/dead-letters/redrive', all)).body, { redriven: 3, left: [] })
  assert.deepEqual(stub.redrives.at(-1), { ...all, caller: 'default' })
  const some = { cause: 'pool_blocked', channel: 'sms', tenant: 't', ids: ['a', 'b'] }
  assert.equal((await stub.ask('POST', '/dead-letters/redrive', some)).status, 200)
  assert.deepEqual(stub.redrives.at(-1), { ...some, caller: 'default' })
})

test('a redrive without ids, a filter or all is refused with a way to fix it', async () => {
  const before = stub.redrives.length
  for (const body of [undefined, {}, { all: false }, { dryRun: true }]) {
    const { status, body: problem } = await stub.ask('POST', '/dead-letters/redrive', body)
    assert.deepEqual([status, problem.code], [400, 'INVALID_REQUEST'])
    assert.match(problem.errors[0]!.message, /\{"all": true\}/)
  }
  assert.equal(stub.redrives.length, before)
})

test('an invalid filter is refused at its name', async () => {
  assert.equal((await stub.ask('GET', '/dead-letters?cause=boredom')).body.errors[0]?.path, '/cause')
  assert.equal(
    (await stub.ask('POST', '/dead-letters/redrive', { reason: 'x' })).body.errors[0]?.path,
    '/reason',
  )
  assert.equal((await stub.ask('POST', '/dead-letters/redrive', [])).status, 400)
})

test('the policy in force is shown with its version', async () => {
  const { body } = await stub.ask('GET', '/policy')
  assert.equal(typeof body.version, 'string')
  assert.equal((body.policy as { limits: { name: string }[] }).limits[0]?.name, 'all')
})

test('a policy is validated without being put in force', async () => {
  const { body: before } = await stub.ask('GET', '/policy')
  const good = await stub.ask('POST', '/policy/validate', {
    version: 1,
    limits: [{ name: 'a', for: 'any', max: ['1/s'] }],
  })
  assert.deepEqual([good.status, good.body.valid, typeof good.body.version], [200, true, 'string'])
  const bad = await stub.ask('POST', '/policy/validate', {
    version: 1,
    limits: [{ name: 'a', for: 'any', max: ['1/fortnight'] }],
  })
  assert.equal(bad.body.valid, false)
  assert.match(bad.body.errors[0]?.path ?? '', /limits/)
  const digest = { window: '1h', minItems: 2, maxItems: 9 }
  const digests = ['new-comment', 'no-such-template'].map((template, index) => ({
    ...digest,
    name: `news-${index}`,
    for: { template: `x${index}` },
    template,
  }))
  const without = await stub.ask('POST', '/policy/validate', { version: 1, digests })
  assert.deepEqual([without.status, without.body.valid], [200, false])
  assert.deepEqual(without.body.errors, [
    { path: 'digests[1].template', message: 'there is no template "no-such-template"' },
  ])
  const deep = `{"limits":${'['.repeat(100_000)}${']'.repeat(100_000)}}`
  assert.equal((await stub.ask('POST', '/policy/validate', deep)).body.valid, false)
  assert.deepEqual((await stub.ask('GET', '/policy')).body, before)
})

test('only operators may use these routes, and only authenticated callers the others', async () => {
  const guarded = await startStub({
    parts: {
      authenticate: async (request) => {
        const { authorization } = request.headers
        if (authorization === undefined) throw new SluiceError('UNAUTHENTICATED', 'Send a token.')
        return {
          tenant: 't',
          module: 'm',
          scopes: new Set(authorization === 'Bearer me' ? [] : [authorization.replace('Bearer ', 'sluice:')]),
        }
      },
    },
  })
  for (const [method, path] of [
    ['GET', '/pools'],
    ['GET', '/dead-letters'],
    ['POST', '/dead-letters/redrive'],
    ['GET', '/policy'],
    ['POST', '/policy/validate'],
  ] as const) {
    const body = method === 'POST' ? { all: true } : undefined
    const nobody = await guarded.ask(method, path, body)
    assert.deepEqual([nobody.status, nobody.headers.get('www-authenticate')], [401, 'Bearer'])
    assert.equal(
      (await guarded.ask(method, path, body, { authorization: 'Bearer me' })).body.code,
      'FORBIDDEN',
    )
    assert.equal((await guarded.ask(method, path, body, { authorization: 'Bearer admin' })).status, 200)
    const read = await guarded.ask(method, path, body, { authorization: 'Bearer read' })
    assert.equal(read.status, path === '/dead-letters/redrive' ? 403 : 200, path)
  }
  assert.equal((await guarded.ask('POST', '/notifications', '{broken')).status, 401)
  assert.equal(
    (await guarded.ask('POST', '/notifications', message, { authorization: 'Bearer me' })).status,
    202,
  )
  assert.equal((await guarded.ask('GET', '/healthz')).status, 200)
})

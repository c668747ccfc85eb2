/** The route of previews under another policy: what it takes, what it refuses, and what it hands on. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PreviewRequest } from '../../../src/http/routes/policy-preview.ts'
import { compilePolicy } from '../../../src/policy/compile.ts'
import { email, message, startStub } from '../stub.ts'
import { noPools } from '../stub-holds.ts'

const asked: PreviewRequest[] = []
const stub = await startStub({
  parts: {
    policyPreview(request) {
      asked.push(request)
      return noPools.policyPreview(request)
    },
  },
})
const now = Date.UTC(2026, 10, 22, 6)
stub.now = () => now
const policy = { version: 1, limits: [{ name: 'a', for: 'any', max: ['1/s'] }] }

test('a preview is made of a notification, a policy and an instant, and answers both decisions', async () => {
  const { status, body } = await stub.ask('POST', '/policy/preview', {
    notification: message,
    policy,
    at: '2026-11-22T08:00:00Z',
  })
  assert.equal(status, 200)
  const { version } = compilePolicy(policy)
  assert.deepEqual(body, {
    now: { outcome: 'send', policyVersion: 'p1', rules: [] },
    // biome-ignore lint/suspicious/noThenProperty: the name of the field in the contract
    then: { outcome: 'send', policyVersion: version, rules: [] },
  })
  const { caller, draft, policy: compiled, at } = asked.at(-1)!
  assert.deepEqual(caller, { tenant: 'default', module: 'default' })
  assert.deepEqual(draft?.to, email)
  assert.deepEqual([compiled?.version, at], [version, now + 7_200_000])
})

test('a preview is made of the id of a notification, in the tenant that is named', async () => {
  const posted = await stub.ask('POST', '/notifications', message)
  const { notificationId } = posted.body
  const found = await stub.ask('POST', '/policy/preview', { notificationId })
  assert.equal(found.status, 200)
  assert.equal(asked.at(-1)?.notification?.id, notificationId)
  const elsewhere = await stub.ask('POST', '/policy/preview', { notificationId, tenant: 'acme' })
  assert.deepEqual([elsewhere.status, elsewhere.body.code], [404, 'NOT_FOUND'])
})

test('a policy that is not valid is refused with the faults of the configuration check, by their place', async () => {
  const bad = { version: 1, limits: [{ name: 'a', for: 'any', max: ['1/fortnight'] }] }
  const checked = await stub.ask('POST', '/policy/validate', bad)
  const { status, body } = await stub.ask('POST', '/policy/preview', { notification: message, policy: bad })
  assert.deepEqual([status, body.code], [400, 'INVALID_REQUEST'])
  assert.equal(checked.body.errors[0]?.path, 'limits[0].max[0]')
  assert.deepEqual(body.errors, [
    { path: '/policy/limits/0/max/0', message: checked.body.errors[0]?.message },
  ])
  const digests = [{ name: 'd', for: 'any', window: '1h', minItems: 2, maxItems: 9, template: 'none' }]
  const without = await stub.ask('POST', '/policy/preview', {
    notification: message,
    policy: { version: 1, digests },
  })
  assert.deepEqual(without.body.errors, [
    { path: '/policy/digests/0/template', message: 'there is no template "none"' },
  ])
})

test('each fault of a request names its place', async () => {
  const cases = [
    [{}, '', /either notification or notificationId/],
    [{ notification: message, notificationId: 'n1' }, '', /either/],
    [{ notification: { ...message, chanel: 'sms' } }, '/notification/chanel', /known/],
    [
      { notification: { recipient: 'nobody-7', channel: 'email', content: { text: 't' } } },
      '/notification/recipient/email',
      /required/,
    ],
    [{ notification: message, at: '2026-11-22T05:00:00Z' }, '/at', /future/],
    [{ notification: message, at: 'tomorrow' }, '/at', /RFC 3339/],
    [{ notification: message, policy: [] }, '/policy', /object/],
    [{ notification: message, later: 1 }, '/later', /known/],
  ] as const
  const count = asked.length
  for (const [body, path, text] of cases) {
    const { status, body: problem } = await stub.ask('POST', '/policy/preview', body)
    assert.deepEqual([status, problem.code, problem.errors[0]?.path], [400, 'INVALID_REQUEST', path])
    assert.match(problem.errors[0]!.message, text)
  }
  assert.equal(asked.length, count)
})

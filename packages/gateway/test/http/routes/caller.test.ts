/** The callers' own route, and the explanation of one notification, over HTTP. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../config/folder.ts'
import { startKeyed } from '../../guarantees/keyed.ts'
import { createSigner, tokenFor } from '../../tokens.ts'
import { startStub } from '../stub.ts'

test('whoami tells tenant, module, scopes and the end of the token', async (t) => {
  const signer = createSigner('ES256')
  const keyed = await startKeyed(t, signer)
  const token = tokenFor(signer, { tenant: 'alpha', module: 'shop', scope: 'sluice:read other' })
  const { status, body } = await keyed.ask('GET', '/api/v1/whoami', { token })
  assert.equal(status, 200)
  const { expiresAt, version, policyVersion, startedAt, features, ...who } = body
  assert.deepEqual(who, {
    tenant: 'alpha',
    module: 'shop',
    scopes: ['other', 'sluice:read'],
    authentication: 'jwt',
  })
  assert.ok(Date.parse(String(expiresAt)) > Date.now() && Date.parse(String(startedAt)) <= Date.now())
  assert.match(`${version} ${policyVersion}`, /^\d+\.\d+\.\d+ [0-9a-f]{16}$/)
  assert.ok(Array.isArray(features))
  assert.equal((await keyed.ask('GET', '/api/v1/whoami')).status, 401)
})

test('without keys whoami names the tenant of the header, and no end', async () => {
  const stub = await startStub()
  const { body } = await stub.ask('GET', '/whoami', undefined, { 'x-tenant-id': 'acme' })
  assert.deepEqual([body.tenant, body.authentication, body.expiresAt], ['acme', 'none', null])
})

test('an explanation names the notifications that hold the places, of the same recipient only', async (t) => {
  const signer = createSigner('ES256')
  const policy = {
    version: 1,
    limits: [
      { name: 'few', for: { category: 'marketing' }, per: ['recipient'], max: ['2/day'], over: 'delay' },
    ],
  }
  const folder = temporaryFolder(t, { 'policy.yaml': JSON.stringify(policy) })
  const keyed = await startKeyed(t, signer, { policy: join(folder, 'policy.yaml') })
  const [alpha, beta, reader] = ['alpha', 'beta', 'alpha'].map((tenant, index) =>
    tokenFor(signer, { tenant, module: 'm', ...(index === 2 ? { scope: 'sluice:read' } : {}) }),
  )
  const send = async (token: string, id: string) => {
    const content = { subject: 'x', text: `${Math.random()}` }
    const recipient = { id, email: 'a@example.com' }
    const { body } = await keyed.ask('POST', '/api/v1/notifications', {
      token,
      body: { recipient, channel: 'email', category: 'marketing', content },
    })
    return String(body.notificationId)
  }
  const own = [await send(alpha!, 'u'), await send(alpha!, 'u')]
  await send(alpha!, 'v')
  await send(beta!, 'u')
  const third = await send(alpha!, 'u')
  const path = `/api/v1/notifications/${third}`
  const { body } = await keyed.ask('GET', `${path}?explain=true`, { token: alpha! })
  const explanation = body.explanation as Record<string, unknown>
  assert.deepEqual(
    [explanation.verdict, explanation.reason, explanation.limit, explanation.window, explanation.untilIs],
    ['waits', 'recipient_limit', 'few', '2/day', 'booked'],
  )
  assert.equal(explanation.until, body.sendAt)
  const held = (explanation.heldBy as { notificationId: string }[]).map(
    ({ notificationId }) => notificationId,
  )
  assert.deepEqual(held.sort(), own.sort())
  assert.match(String(explanation.text), /^Waits until .*Z: the limit few admits 2\/day, and its places/)
  assert.equal((await keyed.ask('GET', `${path}?explain=true`, { token: beta! })).status, 404)
  assert.equal((await keyed.ask('GET', `${path}?explain=true`, { token: reader! })).status, 200)
  assert.equal('explanation' in (await keyed.ask('GET', path, { token: alpha! })).body, false)
  assert.equal((await keyed.ask('GET', `${path}?explain=maybe`, { token: alpha! })).status, 400)
})

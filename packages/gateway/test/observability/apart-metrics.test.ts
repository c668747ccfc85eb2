/** Metrics of accounts and tenants are off by default, and have paths of their own. */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { createSite } from '../child.ts'
import { audience, createSigner, issuer, tokenFor } from '../tokens.ts'

const signer = createSigner('HS256')
const auth = { jwt: { secret: signer.publicKey, issuer, audience } }
const headers = (scope?: string) => ({
  authorization: `Bearer ${tokenFor(signer, { tenant: 'acme', ...(scope === undefined ? {} : { scope }) })}`,
})
const email = {
  recipient: { id: 'ada', email: 'ada@example.com' },
  channel: 'email',
  category: 'security',
  content: { subject: 'x', text: 'x' },
}
const pools = { email: { provider: 'sandbox', accounts: [{ id: 'first', rate: '10/s' }] } }

test('without a word in the configuration neither accounts nor tenants have metrics', async (t) => {
  const site = await createSite(t)
  await site.start()
  for (const path of ['/metrics/accounts', '/metrics/tenants'])
    assert.equal((await site.call('GET', path)).status, 404, path)
})

test('metrics of tenants need the scope to read, and those of accounts name each account', async (t) => {
  const metrics = { accounts: true, tenants: { top: 1 } }
  const site = await createSite(t, { config: { auth, pools, metrics } })
  await site.start()
  await site.call('POST', '/api/v1/notifications', email, headers())
  const delivered = async () => (await site.call('GET', '/metrics/accounts')).text
  const begunMs = performance.now()
  while (!(await delivered()).includes('outcome="delivered"') && performance.now() - begunMs < 5_000);
  assert.match(
    await delivered(),
    /^sluice_account_calls_total\{channel="email",account="first",outcome="delivered"\} 1$/m,
  )
  assert.match(await delivered(), /^sluice_account_used_ratio\{channel="email",account="first"\} [0-9.]+$/m)
  assert.match(
    await delivered(),
    /^sluice_account_out_until_timestamp_seconds\{channel="email",account="first"\} 0$/m,
  )
  assert.equal((await site.call('GET', '/metrics/tenants')).status, 401)
  assert.equal((await site.call('GET', '/metrics/tenants', undefined, headers())).status, 403)
  const { status, text } = await site.call('GET', '/metrics/tenants', undefined, headers('sluice:read'))
  assert.equal(status, 200)
  assert.match(text, /^sluice_tenant_accepted_total\{tenant="acme"\} 1$/m)
  assert.doesNotMatch(text + (await delivered()), /ada/)
})

test('on a port of their own all metrics are there, and no more beside the API', async (t) => {
  const port = await new Promise<number>((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
  const metrics = { port, tenants: {} }
  const site = await createSite(t, { config: { pools, metrics } })
  await site.start()
  assert.equal((await site.call('GET', '/metrics')).status, 404)
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`)
  assert.match(await answer.text(), /^sluice_build_info/m)
  assert.equal((await fetch(`http://127.0.0.1:${port}/metrics/tenants`)).status, 200)
  assert.equal((await fetch(`http://127.0.0.1:${port}/metrics/accounts`)).status, 404)
  assert.equal((await site.terminate()).code, 0)
})

/** Filters of the list of notifications over a whole gateway, each page at a bounded cost, and each tenant its own. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startKeyed } from '../../guarantees/keyed.ts'
import { createSigner, tokenFor } from '../../tokens.ts'

test('a list is narrowed by why, by whom and under which key, and names another tenant for operators alone', async (t) => {
  const signer = createSigner('ES256')
  const keyed = await startKeyed(t, signer)
  const shop = tokenFor(signer, { tenant: 'alpha', module: 'shop' })
  const crm = tokenFor(signer, { tenant: 'alpha', module: 'crm' })
  const beta = tokenFor(signer, { tenant: 'beta', module: 'm' })
  const reader = tokenFor(signer, { tenant: 'gamma', module: 'm', scope: 'sluice:read' })
  const send = async (token: string, more: object, key?: string) => {
    const { status, body } = await keyed.ask('POST', '/api/v1/notifications', {
      token,
      ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
      body: {
        recipient: { id: 'ada', email: 'ada@example.com' },
        channel: 'email',
        category: 'billing',
        content: { subject: 's', text: JSON.stringify(more) },
        ...more,
      },
    })
    assert.equal(status, 202)
    return String(body.notificationId)
  }
  const later = new Date(Date.now() + 3_600_000).toISOString()
  const low = await send(shop, { priority: 'low', actor: 'ann', sendAt: later })
  const high = await send(crm, { priority: 'high', actor: 'bob' }, 'order/7')
  const other = await send(beta, { priority: 'low' })
  const list = async (token: string, query: string) => {
    const { status, body } = await keyed.ask('GET', `/api/v1/notifications?${query}`, { token })
    assert.equal(status, 200, query)
    return (body.items as readonly { notificationId: string }[]).map(({ notificationId }) => notificationId)
  }
  assert.deepEqual(await list(shop, 'priority=low'), [low])
  assert.deepEqual(await list(shop, 'actor=bob&module=crm'), [high])
  assert.deepEqual(await list(shop, 'reason=send_at'), [low])
  assert.deepEqual(await list(shop, 'limitName=marketing-email'), [])
  assert.deepEqual(await list(shop, 'template=none'), [])
  assert.deepEqual(await list(crm, 'idempotencyKey=order/7'), [high])
  assert.deepEqual(await list(shop, 'idempotencyKey=order/7'), [], 'a key belongs to a module')
  assert.deepEqual(await list(shop, 'idempotencyKey=order/7&module=crm'), [high])
  assert.deepEqual(await list(shop, 'idempotencyKey=order/7&module=crm&priority=low'), [])
  const sooner = await send(shop, { sendAt: new Date(Date.now() + 1_800_000).toISOString() })
  assert.deepEqual(await list(shop, 'order=sendAt'), [sooner, low], 'the first to leave comes first')
  assert.deepEqual(await list(shop, 'order=sendAt&status=scheduled&priority=low'), [low])
  assert.deepEqual(await list(shop, 'order=newest&status=scheduled'), [sooner, low])
  assert.deepEqual(await list(beta, 'order=sendAt'), [])
  const ended = await keyed.ask('GET', '/api/v1/notifications?order=sendAt&status=delivered', { token: shop })
  assert.deepEqual(
    [ended.status, (ended.body.errors as readonly { path: string }[])[0]?.path],
    [400, '/status'],
  )
  assert.deepEqual(await list(reader, 'tenant=beta'), [other])
  assert.deepEqual(await list(reader, 'tenant=alpha&priority=high'), [high])
  assert.deepEqual(await list(beta, 'tenant=alpha'), [other], 'a tenant sees its own, whatever it names')
  for (const bad of ['reason=Why', 'priority=urgent', 'colour=red'])
    assert.equal((await keyed.ask('GET', `/api/v1/notifications?${bad}`, { token: shop })).status, 400)
})

test('the use of the policy tells by limit and window what became of notifications, to operators alone', async (t) => {
  const signer = createSigner('ES256')
  const keyed = await startKeyed(t, signer)
  const tenant = tokenFor(signer, { tenant: 'alpha', module: 'm' })
  const reader = tokenFor(signer, { tenant: 'gamma', module: 'm', scope: 'sluice:read' })
  const body = { recipient: { id: 'ada', email: 'ada@example.com' }, channel: 'email', category: 'product' }
  for (let count = 0; count < 6; count += 1) {
    const content = { subject: 's', text: `${count}` }
    await keyed.ask('POST', '/api/v1/notifications', { token: tenant, body: { ...body, content } })
  }
  const use = await keyed.ask('GET', '/api/v1/policy/use?period=7d', { token: reader })
  assert.equal(use.status, 200)
  const rows = use.body.windows as readonly {
    limit: string
    window: string
    admitted: number
    recipientsFull: number
  }[]
  const daily = rows.find(({ limit, window }) => limit === 'product-email' && window === '5/day')
  assert.deepEqual([daily?.admitted, daily?.recipientsFull], [5, 1], JSON.stringify(rows))
  assert.equal((await keyed.ask('GET', '/api/v1/policy/use?period=2h', { token: reader })).status, 400)
  assert.equal((await keyed.ask('GET', '/api/v1/policy/use', { token: tenant })).status, 403)
})

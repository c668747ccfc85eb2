/** Recipients are stored, changed and read within their tenant, and concurrent changes are never lost. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { message, startStub } from '../stub.ts'

const stub = await startStub()
const path = (id: string) => `/recipients/${encodeURIComponent(id)}`

test('a recipient is stored and read again', async () => {
  const fields = {
    email: 'ada@example.com',
    phone: '+393331234567',
    timeZone: 'Europe/Rome',
    locale: 'it-IT',
    quietHours: { default: { from: '22:00', to: '08:00' }, sms: { from: '20:00', to: '09:00' } },
    optOuts: [{ category: 'marketing' }, { channel: 'push' }, { category: 'product', channel: 'email' }],
  }
  const put = await stub.ask('PUT', path('ada/1 ü'), { id: 'ada/1 ü', ...fields })
  assert.equal(put.status, 200)
  assert.deepEqual(put.body, { id: 'ada/1 ü', ...fields })
  assert.deepEqual((await stub.ask('GET', path('ada/1 ü'))).body, put.body)
  assert.equal(stub.recipients.get('default/ada/1 ü')?.tenant, 'default')
})

test('an unknown recipient, or one of another tenant, is not found', async () => {
  await stub.ask('PUT', path('mine'), {})
  assert.equal((await stub.ask('GET', path('nobody'))).body.code, 'NOT_FOUND')
  assert.equal((await stub.ask('GET', path('mine'), undefined, { 'x-tenant-id': 'other' })).status, 404)
})

test('PUT replaces, PATCH merges, null removes', async () => {
  await stub.ask('PUT', path('p'), {
    email: 'p@example.com',
    quietHours: { default: { from: '22:00', to: '08:00' } },
  })
  const patched = await stub.ask(
    'PATCH',
    path('p'),
    {
      email: null,
      phone: '+4512345678',
      quietHours: { default: { to: '09:00' }, sms: { from: '20:00', to: '10:00' } },
    },
    { 'content-type': 'application/merge-patch+json' },
  )
  assert.deepEqual(patched.body, {
    id: 'p',
    phone: '+4512345678',
    quietHours: { default: { from: '22:00', to: '09:00' }, sms: { from: '20:00', to: '10:00' } },
  })
  assert.deepEqual((await stub.ask('PATCH', path('p'), { quietHours: { sms: null } })).body.quietHours, {
    default: { from: '22:00', to: '09:00' },
  })
  assert.deepEqual((await stub.ask('PUT', path('p'), {})).body, { id: 'p' })
})

test('PATCH stores a new recipient', async () => {
  const { status, body } = await stub.ask('PATCH', path('new'), { optOuts: [{ channel: 'sms' }] })
  assert.deepEqual([status, body], [200, { id: 'new', optOuts: [{ channel: 'sms' }] }])
})

test('concurrent changes are all kept', async () => {
  await stub.ask('PUT', path('busy'), {})
  const fields = [{ email: 'b@example.com' }, { phone: '+4512345678' }, { locale: 'de' }, { timeZone: 'UTC' }]
  await Promise.all(fields.map((field) => stub.ask('PATCH', path('busy'), field)))
  assert.deepEqual((await stub.ask('GET', path('busy'))).body, Object.assign({ id: 'busy' }, ...fields))
})

const refused: readonly (readonly [body: unknown, at: string])[] = [
  [{ colour: 'red' }, '/colour'],
  [{ email: 'x' }, '/email'],
  [{ id: 'another' }, '/id'],
  [{ quietHours: { fax: { from: '22:00', to: '08:00' } } }, '/quietHours/fax'],
  [{ quietHours: { default: { from: '24:00', to: '08:00' } } }, '/quietHours/default/from'],
  [{ quietHours: { sms: { from: '22:00' } } }, '/quietHours/sms/to'],
  [{ optOuts: [{ channel: 'fax' }] }, '/optOuts/0/channel'],
  [{ optOuts: 'all' }, '/optOuts'],
]
for (const method of ['PUT', 'PATCH']) {
  for (const [body, at] of refused) {
    test(`${method} refuses ${JSON.stringify(body)} at ${at}`, async () => {
      const reply = await stub.ask(method, path('refused'), body)
      assert.deepEqual([reply.status, reply.body.errors[0]?.path], [400, at])
      assert.equal(stub.recipients.has('default/refused'), false)
    })
  }
}

test('a patch that is deeper than any recipient is refused', async () => {
  const { status } = await stub.ask(
    'PATCH',
    path('deep'),
    `{"quietHours":${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}}`,
  )
  assert.equal(status, 400)
})

test('limits show what frees when, and never as null', async () => {
  const { body } = await stub.ask('GET', `${path('nobody')}/limits`)
  assert.deepEqual(body, {
    limits: [
      { limit: 'none', window: '0/day', used: 0, max: 0, remaining: 0, reserved: 0, freesAt: null },
      {
        limit: 'all',
        window: '0/day',
        used: 0,
        max: 0,
        remaining: 0,
        reserved: 0,
        freesAt: '2027-01-15T08:00:00.000Z',
      },
    ],
  })
})

test('the timeline of a recipient lists their notifications', async () => {
  for (const id of ['t1', 't2', 't1']) {
    await stub.ask('POST', '/notifications', { ...message, recipient: { ...message.recipient, id } })
  }
  const { body } = await stub.ask('GET', `${path('t1')}/timeline?limit=1`)
  assert.deepEqual([body.items.map(({ recipient }) => recipient), body.nextCursor], [['t1'], 'more'])
  assert.equal((await stub.ask('GET', `${path('t1')}/timeline?colour=red`)).status, 400)
})

test('DELETE erases a recipient, again too, and not one of another tenant', async () => {
  await stub.ask('PUT', path('gone'), { email: 'gone@example.com' })
  await stub.ask('PUT', path('gone'), { email: 'kept@example.com' }, { 'x-tenant-id': 'other' })
  for (let round = 0; round < 2; round += 1) {
    const { status, text } = await stub.ask('DELETE', path('gone'))
    assert.deepEqual([status, text], [204, ''])
  }
  assert.equal((await stub.ask('GET', path('gone'))).status, 404)
  assert.equal((await stub.ask('GET', path('gone'), undefined, { 'x-tenant-id': 'other' })).status, 200)
})

test('an erased recipient is not found, and keeps the opt-outs when stored again unless the request sets them', async () => {
  const optOuts = [{ category: 'news' }]
  const left = { tenant: 'default', id: 'back', optOuts, erased: 'erased:x' }
  stub.recipients.set('default/back', left)
  assert.equal((await stub.ask('GET', path('back'))).status, 404)
  const put = await stub.ask('PUT', path('back'), { email: 'back@example.com' })
  assert.deepEqual(put.body, { id: 'back', email: 'back@example.com', optOuts })
  assert.deepEqual((await stub.ask('GET', path('back'))).body, put.body)
  stub.recipients.set('default/back', left)
  const patched = await stub.ask('PATCH', path('back'), { locale: 'it' })
  assert.deepEqual(patched.body, { id: 'back', locale: 'it', optOuts })
  stub.recipients.set('default/back', left)
  const lifted = await stub.ask('PUT', path('back'), { optOuts: [] })
  assert.deepEqual(lifted.body, { id: 'back', optOuts: [] })
})

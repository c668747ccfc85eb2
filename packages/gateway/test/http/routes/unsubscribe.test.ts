/** One click ends mail of one category, and only the holder of the link can click. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createUnsubscribeLinks } from '../../../src/http/unsubscribe.ts'
import { createUnsubscribeLimits } from '../../../src/http/unsubscribe-limits.ts'
import { startStub } from '../stub.ts'

const publicUrl = 'https://notify.example.com'
const links = createUnsubscribeLinks({ publicUrl, key: 'a secret of the tests' })
const stub = await startStub({ parts: { links } })
const about = { tenant: 'acme', to: { id: 'user <42>' }, category: 'marketing', channel: 'email' as const }
const url = links.urlFor!(about)
const path = new URL(url).pathname

test('a link leads to the public address, and its token names the recipient and category', () => {
  assert.ok(url.startsWith(`${publicUrl}/u/`))
  assert.deepEqual(links.read(path.slice('/u/'.length)), {
    tenant: 'acme',
    recipient: 'user <42>',
    category: 'marketing',
    channel: 'email',
  })
})

test('following the link changes nothing', async () => {
  const { status, text, headers } = await stub.ask('GET', path)
  assert.equal(status, 200)
  assert.match(text, /<form method="post">/)
  assert.match(headers.get('content-security-policy') ?? '', /default-src 'none'/)
  assert.equal(stub.recipients.size, 0)
})

test('one click is an opt-out, and a second click adds none', async () => {
  stub.recipients.set('acme/user <42>', {
    tenant: 'acme',
    id: 'user <42>',
    email: 'u@example.com',
    optOuts: [{ channel: 'sms' }],
  })
  for (const [type, body] of [
    ['application/x-www-form-urlencoded', 'List-Unsubscribe=One-Click'],
    ['multipart/form-data; boundary=x', '--x\r\n\r\nOne-Click\r\n--x--'],
    ['application/json', '{broken'],
  ] as const) {
    const { status } = await stub.ask('POST', path, body, { 'content-type': type })
    assert.equal(status, 200)
  }
  assert.equal((await stub.ask('POST', path)).status, 200)
  assert.deepEqual(stub.recipients.get('acme/user <42>'), {
    tenant: 'acme',
    id: 'user <42>',
    email: 'u@example.com',
    optOuts: [{ channel: 'sms' }, { category: 'marketing', channel: 'email' }],
  })
})

test('a repeated click writes nothing', async () => {
  const before = stub.recipients.get('acme/user <42>')
  for (let click = 0; click < 100; click += 1) assert.equal((await stub.ask('POST', path)).status, 200)
  assert.equal(stub.recipients.get('acme/user <42>'), before, 'the same object: nobody stored it anew')
})

test('opt-outs of one recipient above the rate are refused, and other recipients are not affected', async () => {
  const click = (id: string, category: string) =>
    stub.ask('POST', new URL(links.urlFor!({ ...about, to: { id }, category })).pathname)
  for (let count = 0; count < 30; count += 1) assert.equal((await click('eve', `c${count}`)).status, 200)
  const { status, body, headers } = await click('eve', 'c30')
  assert.deepEqual([status, body.code], [429, 'REQUEST_LIMIT_EXCEEDED'])
  assert.ok(Number(headers.get('retry-after')) > 30, headers.get('retry-after') ?? 'none')
  assert.equal(stub.recipients.get('acme/eve')?.optOuts?.length, 30, 'nothing was done')
  assert.equal((await click('eve', 'c3')).status, 200, 'what was done is answered')
  assert.equal((await click('bob', 'c30')).status, 200)
})

test("the opt-outs of a tenant are bounded, and a refusal takes nothing of a recipient's rate", () => {
  let now = 0
  const limits = createUnsubscribeLimits({ now: () => now })
  const isTaken = (tenant: string, recipient: string) => {
    try {
      limits.take(tenant, recipient)
      return true
    } catch {
      return false
    }
  }
  for (let count = 0; count < 1_000; count += 1) assert.ok(isTaken('acme', `r${count}`))
  assert.equal(isTaken('acme', 'late'), false)
  assert.equal(isTaken('other', 'late'), true)
  now = 1_000
  for (let count = 0; count < 30; count += 1) assert.ok(isTaken('acme', 'late'), `${count}`)
})

test('a recipient that was never stored can unsubscribe too', async () => {
  const other = new URL(links.urlFor!({ ...about, to: { id: 'stranger' } })).pathname
  assert.equal((await stub.ask('POST', other)).status, 200)
  assert.deepEqual(stub.recipients.get('acme/stranger')?.optOuts, [
    { category: 'marketing', channel: 'email' },
  ])
})

test('a token of another recipient, or a changed one, is not found', async () => {
  const forged = createUnsubscribeLinks({ publicUrl, key: 'another secret, guessed' })
  const [payload, signature] = path.split('.') as [string, string]
  for (const bad of [
    new URL(forged.urlFor!(about)).pathname,
    `${payload}x.${signature}`,
    `${payload}.${signature.slice(0, -2)}`,
    `${path}.more`,
    '/u/x',
    '/u/..',
    '/u/%00',
  ]) {
    assert.equal((await stub.ask('POST', bad)).status, 404, bad)
    assert.equal((await stub.ask('GET', bad)).status, 404, bad)
  }
})

test('without a public address there are neither links nor routes', async () => {
  const none = createUnsubscribeLinks({ publicUrl: undefined, key: 'a secret of the tests' })
  assert.equal(none.urlFor, undefined)
  assert.equal(none.read(path.slice('/u/'.length)), undefined)
  const closed = await startStub({ parts: { links: none } })
  assert.equal((await closed.ask('GET', path)).status, 404)
})

import assert from 'node:assert/strict'
import { createPublicKey, createVerify, generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { SluiceError } from '../../../src/errors.ts'
import type { JsonObject } from '../../../src/model.ts'
import type { Message } from '../../../src/ports.ts'
import { createSmtpProvider } from '../../../src/providers/smtp/adapter.ts'
import { relaxedBodyHash, relaxedHeaders } from '../dkim-oracle.ts'
import { connected } from '../smtp-rig.ts'

const headersOf = (raw: string): string =>
  raw.slice(0, raw.indexOf('\r\n\r\n') + 2).replace(/\r\n[ \t]+/g, ' ')

test('a mail carries its notification id, its unsubscribe address, and the same Message-ID in a retry', async (t) => {
  const { sink, send } = await connected(t, { account: { from: 'Shop <shop@shop.example>' } })
  const patch = { id: '01ABC', unsubscribeUrl: 'https://notify.example/u/token' }
  assert.equal((await send(patch)).outcome, 'delivered')
  assert.equal((await send({ ...patch, attempt: 2 })).outcome, 'delivered')
  const [first, second] = sink.mails.map(({ raw }) => headersOf(raw))
  for (const line of [
    'From: Shop <shop@shop.example>',
    'To: ada@example.com',
    'X-Notification-Id: 01ABC',
    'Message-ID: <01ABC@shop.example>',
    'List-Unsubscribe: <https://notify.example/u/token>',
    'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
  ]) {
    assert.ok(`\r\n${first}`.includes(`\r\n${line}\r\n`), `${line}\n${first}`)
    assert.ok(`\r\n${second}`.includes(`\r\n${line}\r\n`), `${line}\n${second}`)
  }
  assert.deepEqual([sink.mails[0]!.from, sink.mails[0]!.to], ['shop@shop.example', ['ada@example.com']])
})

test('a mail without an unsubscribe address has no List-Unsubscribe', async (t) => {
  const { sink, send } = await connected(t)
  await send()
  assert.doesNotMatch(sink.mails[0]!.raw, /list-unsubscribe/i)
})

test('the server’s id of the mail is passed on', async (t) => {
  const { send } = await connected(t)
  assert.deepEqual(await send(), {
    outcome: 'delivered',
    providerMessageId: 'SINK1',
    detail: '250 2.0.0 Ok: queued as SINK1',
  })
})

const injections: readonly (readonly [string, Partial<Message>])[] = [
  ['a line break in the address', { to: { id: 'u', email: 'a@b.example\r\nRCPT TO:<x@y.example>' } }],
  ['a bare newline in the address', { to: { id: 'u', email: 'a@b.example\nX: y' } }],
  ['a bracket in the address', { to: { id: 'u', email: 'a@b.example> SIZE=1\u0000' } }],
  ['two addresses', { to: { id: 'u', email: 'a@b.example, x@y.example' } }],
  ['a named address', { to: { id: 'u', email: 'Ada <a@b.example>' } }],
  ['a group', { to: { id: 'u', email: 'all: a@b.example, x@y.example;' } }],
  ['a line break in the subject', { content: { subject: 'Hi\r\nBcc: x@y.example', text: 't' } }],
  ['a line separator in the subject', { content: { subject: 'Hi\u2028Bcc: x@y.example', text: 't' } }],
  ['a line break in the id', { id: '01A\r\nBcc: x@y.example' }],
  ['a line break in the way out', { unsubscribeUrl: 'https://x.example/\r\nBcc: x@y.example' }],
]
for (const [what, patch] of injections) {
  test(`${what} is refused without a call to the server`, async (t) => {
    const { sink, provider, account, send } = await connected(t)
    await provider.warm!(account)
    const heard = sink.commands.length
    assert.equal((await send(patch)).outcome, 'rejected')
    assert.equal(sink.commands.length, heard)
    assert.equal((await send()).outcome, 'delivered')
  })
}

test('a text can neither end the mail nor begin another one', async (t) => {
  const { sink, send } = await connected(t)
  const text = 'one\r\n.\r\nMAIL FROM:<x@y.example>\r\nRCPT TO:<v@y.example>\r\n.two\n..three\n.'
  assert.equal((await send({ content: { subject: 's', text } })).outcome, 'delivered')
  assert.equal(sink.mails.length, 1)
  assert.deepEqual(sink.mails[0]!.to, ['ada@example.com'])
  assert.equal(sink.mails[0]!.raw.split('\r\n\r\n')[1], `${text.replace(/\r\n|\n/g, '\r\n')}\r\n`)
})

test('an international address is sent with SMTPUTF8 where the server supports it, and refused elsewhere', async (t) => {
  const email = 'jürgen@bücher.example'
  const able = await connected(t)
  assert.equal((await able.send({ to: { id: 'u', email } })).outcome, 'delivered')
  assert.ok(able.sink.commands.some((line) => /^MAIL FROM:<.*> .*SMTPUTF8/.test(line)))
  const unable = await connected(t, { sink: { extensions: ['PIPELINING'] } })
  assert.equal((await unable.send({ to: { id: 'u', email } })).outcome, 'rejected')
  assert.equal(unable.sink.mails.length, 0)
  // Only the name before the @ needs it: a domain has an ASCII form.
  assert.equal((await unable.send({ to: { id: 'u', email: 'ada@bücher.example' } })).outcome, 'delivered')
  assert.deepEqual(unable.sink.mails[0]!.to, ['ada@xn--bcher-kva.example'])
})

test('mails are sent in their order of arrival', async (t) => {
  const { sink, send } = await connected(t, { account: { connections: 1 } })
  const ids = Array.from({ length: 50 }, (_, index) => `01ORDER${index}`)
  await Promise.all(ids.map((id) => send({ id })))
  assert.deepEqual(
    sink.mails.map(({ raw }) => /X-Notification-Id: (\S+)/.exec(raw)![1]),
    ids,
  )
})

test('a mail that a reply defers is not sent again by the adapter', async (t) => {
  const { sink, send } = await connected(t)
  await send()
  sink.rules = [{ at: 'rcpt', do: '451 4.3.0 local error' }]
  const asked = sink.commands.filter((line) => line.startsWith('RCPT')).length
  assert.equal((await send()).outcome, 'failed')
  assert.equal(sink.commands.filter((line) => line.startsWith('RCPT')).length, asked + 1)
})

test('a mail that the server may have taken is never resent by the adapter', async (t) => {
  const { sink, send } = await connected(t)
  await send()
  sink.rules = [{ at: 'body', do: 'take-reset' }]
  assert.equal((await send({ id: '01ONCE' })).outcome, 'unknown')
  assert.equal(sink.mails.filter(({ raw }) => raw.includes('01ONCE')).length, 1)
})

test('a throttling server gets no second try over another connection', async (t) => {
  const { sink, send } = await connected(t)
  await send()
  sink.rules = [{ at: 'mail', do: '421 4.7.0 too many messages, slow down' }]
  const asked = sink.commands.filter((line) => line.startsWith('MAIL')).length
  assert.equal((await send()).outcome, 'rate_limited')
  assert.equal(sink.commands.filter((line) => line.startsWith('MAIL')).length, asked + 1)
})

test('a time-out after the mail was transferred is unknown, one before it is a failure', async (t) => {
  const { sink, send } = await connected(t, { provider: { deadlineMs: 1_500 } })
  sink.rules = [{ at: 'body', do: 'take-hang' }]
  assert.equal((await send()).outcome, 'unknown')
  sink.rules = [{ at: 'data', do: 'hang' }]
  assert.equal((await send()).outcome, 'failed')
})

test('a time-out ends the call, also on a kept connection', { timeout: 60_000 }, async (t) => {
  const { sink, send } = await connected(t, { provider: { deadlineMs: 1_500 } })
  await send()
  sink.rules = [{ at: 'mail', do: 'hang' }]
  assert.deepEqual(await send(), { outcome: 'failed', detail: 'no answer in time' })
  assert.equal(sink.commands.filter((line) => line.startsWith('MAIL')).length, 2)
})

test('the password logs in, and no failure shows it', async (t) => {
  const withPassword = (password: string) => (url: string) => url.replace('://', `://ada:${password}@`)
  const right = await connected(t, { sink: { login: 'ada:pa:ss/word' }, url: withPassword('pa%3Ass%2Fword') })
  assert.equal((await right.send()).outcome, 'delivered')
  const wrong = await connected(t, { sink: { login: 'ada:right' }, url: withPassword('canary-7781') })
  const result = await wrong.send()
  assert.equal(result.outcome, 'failed')
  assert.doesNotMatch(JSON.stringify(result), /canary-7781|Y2FuYXJ5/)
})

test('TLS is used where it is offered, and a self-signed certificate is not trusted', async (t) => {
  for (const tls of ['offered', 'at-once'] as const) {
    const trusting = await connected(t, { sink: { tls }, account: { tls: 'unverified' } })
    assert.equal((await trusting.send()).outcome, 'delivered')
    assert.equal(trusting.sink.mails[0]!.encrypted, true)
    const strict = await connected(t, { sink: { tls }, account: { tls: 'required' } })
    assert.equal((await strict.send()).outcome, 'failed')
    assert.deepEqual(strict.sink.mails, [])
  }
})

test('a server without TLS gets no mail where TLS is required', async (t) => {
  const { sink, send } = await connected(t, { account: { tls: 'required' } })
  assert.equal((await send()).outcome, 'failed')
  assert.deepEqual(
    sink.commands.filter((line) => line.startsWith('MAIL')),
    [],
  )
})

test('a DKIM signature verifies, the unsubscribe header included', async (t) => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const dkim = {
    domainName: 'shop.example',
    keySelector: 's1',
    privateKey: privateKey.export({ type: 'pkcs1', format: 'pem' }).toString(),
  }
  const { sink, send } = await connected(t, { account: { from: 'shop@shop.example', dkim } })
  const content = {
    subject: 'Grüße  mit  Abstand',
    text: '.dot\nZeile  mit \t Abstand \n\n\n',
    html: '<p>你好</p>',
  }
  assert.equal((await send({ content, unsubscribeUrl: 'https://notify.example/u/1' })).outcome, 'delivered')
  const { raw } = sink.mails[0]!
  const signature = /^DKIM-Signature: (.*(?:\r\n[ \t].*)*)\r\n/m.exec(raw)![1]!
  const tag = (name: string): string =>
    new RegExp(`(?:^|;)\\s*${name}=([^;]*)`).exec(signature)![1]!.replace(/\s/g, '')
  assert.equal(tag('d'), 'shop.example')
  const names = tag('h').split(':')
  for (const name of ['from', 'to', 'list-unsubscribe', 'list-unsubscribe-post']) {
    assert.ok(names.map((each) => each.toLowerCase()).includes(name), name)
  }
  assert.equal(tag('bh'), relaxedBodyHash(raw))
  const verify = createVerify('RSA-SHA256').update(relaxedHeaders(raw, names, signature))
  assert.ok(
    verify.verify(createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })), tag('b'), 'base64'),
  )
})

for (const [what, privateKey] of [
  [
    'of an elliptic curve',
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' }),
  ],
  ['of another kind', generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' })],
  ['that is broken', '-----BEGIN PRIVATE KEY-----\nbroken\n-----END PRIVATE KEY-----\n'],
] as const) {
  test(`with a DKIM key ${what} no mail is sent, and the start names the reason`, async (t) => {
    const dkim = { domainName: 'shop.example', keySelector: 's1', privateKey: String(privateKey) }
    const { sink, provider, account, send } = await connected(t, { account: { dkim } })
    await assert.rejects(provider.warm!(account), /main: the DKIM key cannot sign/)
    assert.deepEqual(await send(), { outcome: 'failed', detail: 'the DKIM key cannot sign' })
    assert.deepEqual(sink.mails, [])
  })
}

const faults: readonly (readonly [string, string, JsonObject])[] = [
  ['an url of another kind', 'http://localhost', {}],
  ['an url that is none', 'localhost', {}],
  ['two senders', 'smtp://localhost', { from: 'a@b.example, c@d.example' }],
  ['a sender with a line break', 'smtp://localhost', { from: 'A\r\nBcc: x@y.example <a@b.example>' }],
  ['a sender whose name is not ASCII', 'smtp://localhost', { from: 'größe@a.example' }],
  ['no connections', 'smtp://localhost', { connections: 0 }],
  ['an unknown way of TLS', 'smtp://localhost?tls=perhaps', {}],
  [
    'a key file that is not there',
    'smtp://localhost',
    { dkim: { domainName: 'a.example', keySelector: 's', privateKeyFile: '/nowhere' } },
  ],
  ['half a signature', 'smtp://localhost', { dkim: { domainName: 'a.example' } }],
]
for (const [what, url, options] of faults) {
  test(`an account with ${what} is refused when it is warmed`, async () => {
    const provider = createSmtpProvider()
    await assert.rejects(provider.warm!({ id: 'main', url, options }), (error) => {
      return error instanceof SluiceError && error.code === 'INVALID_CONFIG' && error.message.includes('main')
    })
  })
}

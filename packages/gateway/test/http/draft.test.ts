/** The rules of a notification, and the place that a refusal names. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dataLevelsMax } from '../../src/http/json.ts'
import { email, message, startStub } from './stub.ts'

const stub = await startStub()
const post = (body: unknown) => stub.ask('POST', '/notifications', body)

function nested(levels: number): unknown {
  let data: unknown = 1
  for (let level = 0; level < levels; level += 1) data = { a: data }
  return data
}

const refused: readonly (readonly [what: string, change: object, path: string])[] = [
  ['an unknown field', { colour: 'red' }, '/colour'],
  ['an unknown field of the recipient', { recipient: { ...email, fax: '1' } }, '/recipient/fax'],
  ['a number for a text', { category: 5 }, '/category'],
  ['a missing recipient', { recipient: undefined }, '/recipient'],
  ['a recipient without id', { recipient: { email: 'a@example.com' } }, '/recipient/id'],
  ['an empty id', { recipient: { ...email, id: '' } }, '/recipient/id'],
  ['an id of 257 characters', { recipient: { ...email, id: 'x'.repeat(257) } }, '/recipient/id'],
  ['an id with a line break', { recipient: { ...email, id: 'a\nb' } }, '/recipient/id'],
  ['an unknown channel', { channel: 'fax' }, '/channel'],
  ['a channel that is not served', { channel: 'slack', content: { text: 'x' } }, '/channel'],
  ['an unknown priority', { priority: 'urgent' }, '/priority'],
  ['a category with a blank', { category: 'a b' }, '/category'],
  ['an address without domain', { recipient: { ...email, email: 'ada' } }, '/recipient/email'],
  ['two addresses', { recipient: { ...email, email: 'a@example.com,b@example.com' } }, '/recipient/email'],
  ['a display name', { recipient: { ...email, email: 'Ada <a@example.com>' } }, '/recipient/email'],
  [
    'a line break in an address',
    { recipient: { ...email, email: 'a@example.com\r\nBcc: b@example.com' } },
    '/recipient/email',
  ],
  ['a phone number without +', { recipient: { ...email, phone: '0612345678' } }, '/recipient/phone'],
  [
    'a webhook that is no http',
    { recipient: { ...email, webhookUrl: 'file:///etc/passwd' } },
    '/recipient/webhookUrl',
  ],
  [
    'a time zone that does not exist',
    { recipient: { ...email, timeZone: 'Mars/Olympus' } },
    '/recipient/timeZone',
  ],
  ['a locale that is none', { recipient: { ...email, locale: 'not a locale' } }, '/recipient/locale'],
  ['a date without time', { sendAt: '2026-11-22' }, '/sendAt'],
  ['30 February', { sendAt: '2026-02-30T00:00:00Z' }, '/sendAt'],
  ['an expiry in the past', { expiresAt: '2020-01-01T00:00:00Z' }, '/expiresAt'],
  ['neither template nor content', { content: undefined }, '/content'],
  ['an unknown template beside content', { template: 'no-such' }, '/template'],
  ['an unknown template', { content: undefined, template: 'no-such' }, '/template'],
  ['a template outside of its folder', { content: undefined, template: '../new-comment' }, '/template'],
  ['mail without a body', { content: { subject: 'x' } }, '/content'],
  [
    'a line break in a subject',
    { content: { subject: 'x\r\nBcc: b@example.com', text: 'x' } },
    '/content/subject',
  ],
  ['data that is a list', { data: [] }, '/data'],
  ['data that is too deep', { data: nested(dataLevelsMax + 1) }, '/data'],
  ['NUL in a text', { content: { subject: 'x', text: 'a\0b' } }, '/content/text'],
  ['half of a character in data', { data: { list: ['\ud800'] } }, '/data/list/0'],
  ['half of a character in a key', { data: { 'a\udc00': 1 } }, '/data/a\ufffd'],
  ['the key constructor', { data: { constructor: 1 } }, '/data/constructor'],
]

for (const [what, change, path] of refused) {
  test(`${what} is refused at ${path}`, async () => {
    const before = stub.drafts.length
    const { status, body } = await post({ ...message, ...change })
    assert.equal(status, 400)
    assert.equal(body.code, 'INVALID_REQUEST')
    assert.ok(
      body.errors.some((error) => error.path === path),
      JSON.stringify(body.errors),
    )
    assert.equal(stub.drafts.length, before)
  })
}

test('__proto__ is refused, literal or escaped', async () => {
  const text = JSON.stringify(message).slice(0, -1)
  for (const key of ['__proto__', '\\u005f_proto__', '_\\u005Fproto__']) {
    const { status, body } = await post(`${text},"data":{"a":{"${key}":{"x":1}}}}`)
    assert.deepEqual([status, body.errors[0]?.path], [400, '/data/a/__proto__'])
  }
})

test('data of 32 levels is accepted, with any harmless text', async () => {
  assert.equal((await post({ ...message, data: nested(dataLevelsMax) })).status, 202)
  const text = 'pile of 💩, \u2028, "quotes", \\u0000, constructor'
  assert.equal((await post({ ...message, data: { text, '💩': [] } })).status, 202)
  assert.deepEqual(stub.drafts.at(-1)?.data, { text, '💩': [] })
  assert.equal(
    (
      await post(
        JSON.stringify({ ...message, data: { a: 'é💩' } })
          .replaceAll('é', '\\u00e9')
          .replaceAll('💩', '\\ud83d\\udca9'),
      )
    ).status,
    202,
  )
  assert.deepEqual(stub.drafts.at(-1)?.data, { a: 'é💩' })
})

test('data above 64 KiB is refused, and up to it accepted', async () => {
  const frame = JSON.stringify({ a: '' }).length
  assert.equal((await post({ ...message, data: { a: 'x'.repeat(65_536 - frame) } })).status, 202)
  const { status, body } = await post({ ...message, data: { a: 'x'.repeat(65_537 - frame) } })
  assert.deepEqual([status, body.code], [413, 'PAYLOAD_TOO_LARGE'])
  // Numbers grow when they are parsed and written again.
  const numbers = JSON.stringify({ ...message, data: { a: [] } }).replace(
    '[]',
    `[${Array(5_000).fill('1e20').join()}]`,
  )
  assert.equal((await post(numbers)).status, 413)
})

test('all faults of one request are named at once', async () => {
  const { body } = await post({
    ...message,
    recipient: { id: '', email: 'x' },
    channel: 'fax',
    sendAt: 'soon',
  })
  assert.deepEqual(body.errors.map(({ path }) => path).sort(), [
    '/channel',
    '/recipient/email',
    '/recipient/id',
    '/sendAt',
  ])
})

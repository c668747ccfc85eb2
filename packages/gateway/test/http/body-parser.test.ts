/** A large body is parsed in another thread, with the same result as on the event loop. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { dataOf, joinedPayload } from '../../src/content.ts'
import { createBodyParser, largeBytes } from '../../src/http/body-parser.ts'
import { email, message, startStub } from './stub.ts'

const stub = await startStub()
const recipients = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ id: `user-${n}`, email: `user-${n}@example.com` }))
const batch = { ...message, recipient: undefined, recipients: recipients(3) }
/** White space makes a body large without changing its meaning. */
const large = (body: unknown) =>
  ' '.repeat(largeBytes) + (typeof body === 'string' ? body : JSON.stringify(body))

const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) })
const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
const own = (data: unknown, count = 3) => recipients(count).map((each) => ({ ...each, data }))

const bodies: readonly (readonly [path: string, body: unknown])[] = [
  ['/notifications', message],
  ['/notifications', { ...message, content: undefined, template: 'new-comment', data: { post: '€' } }],
  ['/notifications', { ...message, data: nested(32) }],
  ['/notifications', { ...message, data: nested(33) }],
  ['/notifications', { ...message, data: { text: 'x'.repeat(70_000) } }],
  ['/notifications', { ...message, data: [1] }],
  ['/notifications', { ...message, content: ['text'] }],
  ['/notifications', { ...message, content: { text: { deep: nested(9) } } }],
  ['/notifications', { ...message, content: { text: 'a', more: 'b' } }],
  ['/notifications', { ...message, recipient: { ...email, email: { at: 'x' } } }],
  ['/notifications', { ...message, recipient: 'nobody-knows' }],
  ['/notifications', { ...message, channel: nested(3), other: nested(3) }],
  ['/notifications', { ...message, content: { text: 'a\u0000b' } }],
  ['/notifications', `{"channel":${deep}}`],
  ['/notifications', `{"data":${deep}}`],
  ['/notifications', deep],
  ['/notifications', '{"a":'],
  ['/notifications', 'null'],
  ['/decisions', message],
  ['/notifications/batch', batch],
  ['/notifications/batch', { ...batch, data: { site: 's', a: 1 }, recipients: own({ a: 2, b: [{}] }) }],
  ['/notifications/batch', { ...batch, data: { site: 's', a: 1 }, recipients: own({ a: 2 }, 101) }],
  ['/notifications/batch', { ...batch, recipients: own(nested(33)) }],
  ['/notifications/batch', { ...batch, recipients: own({ text: 'x'.repeat(70_000) }) }],
  [
    '/notifications/batch',
    { ...batch, data: { a: 'x'.repeat(40_000) }, recipients: own({ b: 'x'.repeat(40_000) }) },
  ],
  [
    '/notifications/batch',
    { ...batch, data: { a: 'x'.repeat(40_000) }, recipients: own({ a: 'x'.repeat(40_000) }) },
  ],
  ['/notifications/batch', { ...batch, recipients: own('text') }],
  ['/notifications/batch', { ...batch, recipients: own([1]) }],
  [
    '/notifications/batch',
    { ...batch, recipients: [...recipients(2), { id: 'x', email: 'misspelt' }, 'unknown'] },
  ],
  ['/notifications/batch', { ...batch, recipients: [...recipients(2), []] }],
  ['/notifications/batch', { ...batch, recipients: { length: 2 } }],
  ['/notifications/batch', { ...batch, recipients: recipients(501) }],
]

/** Records the calls of the gate and the jobs. */
function asked() {
  const drafts = stub.drafts
    .splice(0)
    .map((draft) => ({ ...draft, shared: joinedPayload(draft, draft.shared) }))
  const jobs = stub.opened.splice(0).map(({ work, refused }) => ({
    message: work.message,
    refused,
    recipients: work.recipients.map(({ data, ...to }) => ({ ...to, ...(data && { data: dataOf(data) }) })),
  }))
  return { drafts, jobs }
}

test('the parser thread accepts and refuses exactly as the event loop does', async () => {
  /** Ids and instants differ, and so does the position where white space counts. */
  const said = (text: string) =>
    text
      .replaceAll(/"(?:notificationId|jobId|requestId)":"[^"]*"/g, '')
      .replaceAll(/"(?:at|sendAt)":"[^"]*"/g, '')
      .replaceAll(/at position \d+/g, '')
  for (const [path, body] of bodies) {
    const small = await stub.ask('POST', path, body)
    const askedSmall = asked()
    const given = await stub.ask('POST', path, large(body))
    const what = JSON.stringify(body).slice(0, 100)
    assert.deepEqual([given.status, said(given.text)], [small.status, said(small.text)], what)
    assert.deepEqual(asked(), askedSmall, what)
  }
})

test('a repeated large body is recognised by its key, and another body under the key is refused', async () => {
  const headers = { 'idempotency-key': 'large' }
  const ask = (body: unknown) => stub.ask('POST', '/notifications', large(body), headers)
  const first = await ask(message)
  const again = await ask(message)
  assert.equal(again.text, first.text)
  assert.equal((await ask({ ...message, actor: 'somebody' })).body.code, 'IDEMPOTENCY_MISMATCH')
})

test('of a batch of 8 MiB the event loop parses and writes nothing longer than one recipient’s data', async (t) => {
  const { parse, stringify } = JSON
  let longest = 0
  const note = <T extends string | undefined>(text: T): T => {
    longest = Math.max(longest, text?.length ?? 0)
    return text
  }
  const data = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`key-${n}`, n]))
  const letters = '€'.repeat(200_000)
  const batches = [
    { ...batch, recipients: own(data, 480) },
    { ...batch, recipients: own({ text: 'x'.repeat(60_000) }, 100) },
    { ...batch, content: { subject: 'Hello', text: letters, html: letters }, recipients: recipients(100) },
  ].map((body) => stringify(body))
  t.after(() => Object.assign(JSON, { parse, stringify }))
  Object.assign(JSON, {
    parse: (text: string, ...more: []) => parse(note(text), ...more),
    stringify: (value: unknown, ...more: []) => note(stringify(value, ...more)),
  })
  for (const body of batches) {
    assert.ok(body.length > 350_000)
    const response = await fetch(`${stub.url}/api/v1/notifications/batch`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    })
    assert.equal(response.status, 202)
    await response.arrayBuffer()
  }
  assert.ok(longest > 0 && longest <= 65_536, `${longest} characters at once`)
})

test('closing ends the bodies that wait for the parser thread, and starts no other thread', async () => {
  const parser = createBodyParser()
  const body = () => Buffer.from(JSON.stringify({ text: 'x'.repeat(2 * largeBytes) }))
  const waiting = Array.from({ length: 5 }, (_, index) => parser.parse(`t${index % 2}`, body(), false))
  const ended = Promise.allSettled(waiting)
  await parser.close()
  for (const each of await ended)
    assert.ok(each.status === 'rejected' && each.reason.code === 'STORE_UNAVAILABLE')
  await assert.rejects(parser.parse('t0', body(), false), { code: 'STORE_UNAVAILABLE' })
})

test('the parser thread is lower than a process that is itself lower than others', {
  skip: process.platform === 'linux' ? false : 'only Linux has priorities of threads',
}, async () => {
  const program = `
      const { createBodyParser } = await import(${JSON.stringify(new URL('../../src/http/body-parser.ts', import.meta.url))})
      const { readdirSync, readFileSync } = await import('node:fs')
      const parser = createBodyParser()
      await parser.parse('t', Buffer.from('{}'), false)
      const niceness = (task) => Number(readFileSync('/proc/self/task/' + task + '/stat', 'utf8').split(') ')[1].split(' ')[16])
      console.log(Math.max(...readdirSync('/proc/self/task').map(niceness)))
      process.exit()`
  const { stdout } = await promisify(execFile)('nice', [
    '-n',
    '12',
    process.execPath,
    '--conditions=sluice-source',
    '--input-type=module',
    '--eval',
    program,
  ])
  assert.equal(stdout.trim(), '19')
})

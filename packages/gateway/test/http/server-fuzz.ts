/**
 * Generated requests: every answer is one that the document declares, and never a 5xx. The stub behind the server never
 * fails, so any 5xx would be the server's fault.
 */
import assert from 'node:assert/strict'
import { Agent, request as send } from 'node:http'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { message, startStub } from './stub.ts'

const seed = Number(process.env.SLUICE_SEED ?? 1)
console.log(`SLUICE_SEED=${seed}`)

const stub = await startStub()
/** Requests that are under way together. */
const atOnce = 8
const agent = new Agent({ keepAlive: true, maxSockets: atOnce })
after(() => agent.destroy())

interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer | undefined
}

interface Got {
  readonly status: number
  readonly type: string
  readonly text: string
}

function exchange({ method, path, headers, body }: Sent): Promise<Got> {
  return new Promise((resolve, reject) => {
    const request = send(stub.url + path, { method, headers: { ...headers }, agent }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          type: response.headers['content-type'] ?? '',
          text: Buffer.concat(chunks).toString(),
        }),
      )
      response.on('error', reject)
    })
    request.on('error', reject)
    request.end(body)
  })
}

const nasty = fc.constantFrom(
  '',
  ' ',
  '\0',
  '\ud800',
  '__proto__',
  'constructor',
  '💩',
  '\r\n',
  '../..',
  '%00',
  "' OR 1=1",
  '{{7*7}}',
  'x'.repeat(300),
  '\u2028',
)
const word = fc.oneof(nasty, fc.string({ unit: 'binary', maxLength: 20 }))
const value = fc.oneof(
  word,
  fc.jsonValue(),
  fc.constantFrom(null, true, -0, 1e308, 2 ** 53, [], {}),
  fc.constantFrom(
    'email',
    'sms',
    'critical',
    '2026-11-22T09:00:00Z',
    'a@example.com',
    '+4512345678',
    'Europe/Rome',
  ),
)

const fields = [
  'recipient',
  'recipients',
  'channel',
  'category',
  'priority',
  'template',
  'data',
  'content',
  'actor',
  'sendAt',
  'expiresAt',
  'email',
  'phone',
  'timeZone',
  'quietHours',
  'optOuts',
  'id',
  'cause',
  'ids',
  'limits',
  'digests',
]
const field = fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...fields) }, { weight: 1, arbitrary: word })

/** A valid notification with some of its fields, or fields of its fields, replaced. */
const mutated = fc
  .array(
    fc.tuple(field, fc.option(fc.constantFrom('id', 'email', 'subject', 'text', 'default', '0')), value),
    { maxLength: 4 },
  )
  .map((changes) => {
    const body: Record<string, unknown> = structuredClone(message)
    for (const [key, inner, change] of changes) {
      const inside = body[key]
      if (inner !== null && typeof inside === 'object' && inside !== null) {
        body[key] = { ...inside, [inner]: change }
      } else
        Object.defineProperty(body, key, {
          value: change,
          enumerable: true,
          configurable: true,
          writable: true,
        })
    }
    return JSON.stringify(body)
  })

/** A notification that would be accepted without a harmful text or key, which stands where any may stand. */
const harmful = fc
  .tuple(
    word,
    fc.constantFrom('\0', '\ud800'),
    fc.constantFrom('__proto__', 'constructor'),
    fc.constantFrom('text', 'value', 'key'),
  )
  .map(([around, character, key, place]) => {
    const text = `${around.toWellFormed().replaceAll(/[\r\n]/g, '')}${character}`
    const data = place === 'key' ? { inner: Object.fromEntries([[key, 1]]) } : { inner: [text] }
    const { content, ...rest } = message
    return JSON.stringify(
      place === 'text' ? { ...message, content: { ...content, text } } : { ...rest, content, data },
    )
  })

const bodies: fc.Arbitrary<string | Buffer | undefined> = fc.oneof(
  { weight: 6, arbitrary: mutated },
  { weight: 1, arbitrary: harmful },
  { weight: 2, arbitrary: fc.json() },
  { weight: 1, arbitrary: fc.string({ unit: 'binary' }) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)) },
  {
    weight: 1,
    arbitrary: fc
      .integer({ min: 1, max: 60 })
      .map((levels) => `{"data":${'['.repeat(levels * 500)}${']'.repeat(levels * 500)}}`),
  },
  { weight: 1, arbitrary: fc.constant(undefined) },
)

const segment = word.map((text) => encodeURIComponent(text.toWellFormed()))
const query = fc
  .array(
    fc.tuple(
      fc.constantFrom(
        'limit',
        'cursor',
        'status',
        'from',
        'to',
        'channel',
        'recipient',
        'job',
        'tenant',
        'x',
      ),
      segment,
    ),
    { maxLength: 3 },
  )
  .map((pairs) => (pairs.length === 0 ? '' : `?${pairs.map(([key, text]) => `${key}=${text}`).join('&')}`))
const paths = fc.tuple(
  fc.oneof(
    fc.constantFrom(
      '/notifications',
      '/notifications/batch',
      '/decisions',
      '/dead-letters',
      '/dead-letters/redrive',
      '/policy',
      '/policy/validate',
      '/pools',
    ),
    fc
      .tuple(
        fc.constantFrom('/notifications/', '/recipients/', '/jobs/'),
        segment,
        fc.constantFrom('', '', '/limits', '/timeline'),
      )
      .map((parts) => parts.join('')),
    segment.map((text) => `/${text}`),
    fc.nat(40).map((number) => `/jobs/j${number}`),
  ),
  query,
)

const headerText = fc.string({ maxLength: 10 }).map((text) => text.replaceAll(/[^\x20-\x7e\xa0-\xff]/g, ''))
const place = fc.oneof(
  { weight: 5, arbitrary: fc.tuple(fc.constant('POST'), fc.constant('/api/v1/notifications')) },
  {
    weight: 2,
    arbitrary: fc.tuple(
      fc.constant('POST'),
      fc.constantFrom(
        '/api/v1/notifications/batch',
        '/api/v1/decisions',
        '/api/v1/dead-letters/redrive',
        '/api/v1/policy/validate',
      ),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(
      fc.constantFrom('PUT', 'PATCH', 'GET'),
      segment.map((text) => `/api/v1/recipients/${text}`),
    ),
  },
  {
    weight: 4,
    arbitrary: fc.tuple(
      fc.constantFrom('POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'),
      paths.map(([path, query]) => `/api/v1${path}${query}`),
    ),
  },
)
const singles: fc.Arbitrary<Sent> = fc
  .record({
    place,
    headers: fc
      .record(
        {
          'content-type': fc.oneof(
            { weight: 9, arbitrary: fc.constant('application/json') },
            { weight: 1, arbitrary: headerText },
          ),
          'idempotency-key': fc.oneof(fc.constantFrom('a', 'b', 'c'), headerText),
          'x-tenant-id': headerText,
        },
        { requiredKeys: ['content-type'] },
      )
      .map((headers) => ({ ...headers })),
    body: bodies,
  })
  .map(({ place: [method, path], headers, body }) => ({ method, path, headers, body }))

/** A valid batch of any size up to one too many, with one of its recipients replaced. */
const batches: fc.Arbitrary<Sent> = fc
  .tuple(fc.integer({ min: 1, max: 501 }), fc.nat(600), fc.oneof(value, fc.record({ id: word })))
  .map(([count, index, change]) => {
    const { recipient, ...rest } = message
    const recipients = Array.from({ length: count }, (_, at) =>
      at === index ? change : { ...recipient, id: `u${at}` },
    )
    return {
      method: 'POST',
      path: '/api/v1/notifications/batch',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...rest, recipients }),
    }
  })
const requests = fc.oneof({ weight: 60, arbitrary: singles }, { weight: 1, arbitrary: batches })

const declared = new Set([200, 202, 204, 400, 404, 405, 409, 413, 415, 422, 429])

/** Registers the tests of so many requests, a multiple of those that are under way together. */
export function exerciseServer(count: number): void {
  test(`${count} generated requests are answered as declared`, { timeout: 120_000 }, async () => {
    const seen = new Map<number, number>()
    await fc.assert(
      fc.asyncProperty(fc.array(requests, { minLength: atOnce, maxLength: atOnce }), async (sent) => {
        const got = await Promise.all(
          sent.map((one) => exchange(one.method === 'GET' ? { ...one, body: undefined } : one)),
        )
        for (const [index, { status, type, text }] of got.entries()) {
          const where = `${JSON.stringify(sent[index])} → ${status} ${text}`
          assert.ok(declared.has(status), where)
          if (status >= 400) {
            assert.equal(type, 'application/problem+json; charset=utf-8', where)
            const problem = JSON.parse(text) as { status: number; code: string; detail: string }
            assert.equal(problem.status, status, where)
            assert.ok(problem.code !== undefined && problem.detail !== '', where)
          } else if (status !== 204) JSON.parse(text)
          seen.set(status, (seen.get(status) ?? 0) + 1)
        }
      }),
      { seed, numRuns: count / atOnce, endOnFailure: false },
    )
    assert.deepEqual(stub.logged, [])
    assert.ok((seen.get(202) ?? 0) > count * 0.03, `too few good ones: ${JSON.stringify([...seen])}`)
    assert.ok((seen.get(400) ?? 0) > count * 0.1, `too few bad ones: ${JSON.stringify([...seen])}`)
  })

  test('generated batches opened jobs, up to the largest size', () => {
    const sizes = stub.opened.map(({ work, refused }) => work.recipients.length + refused.length)
    assert.ok(sizes.length > count * 0.002, `${sizes.length} jobs`)
    assert.ok(sizes.every((size) => size > 100 && size <= 500))
  })

  test('no harmful input was accepted', () => {
    for (const draft of [...stub.drafts, ...stub.opened.map(({ work }) => work)]) {
      const text = JSON.stringify(draft)
      assert.equal(
        /\\u0000|\\ud[89a-f]|"__proto__":|"constructor":/.test(text.replaceAll('\\\\', '')),
        false,
        text,
      )
    }
  })
}

/** Requests before any route: paths and methods, types and sizes, invalid HTTP, slow clients, and shutdown. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { createApp } from '../../src/http/app.ts'
import { defaultConfig, message, type Stub, startStub } from './stub.ts'

const stub = await startStub({ requestTimeoutMs: 400 })

async function open(to: Stub = stub): Promise<Socket> {
  const socket = connect(Number(new URL(to.url).port), '127.0.0.1')
  await once(socket, 'connect')
  return socket
}

/** Reads until the other side ends. */
async function rest(socket: Socket): Promise<string> {
  let text = ''
  for await (const chunk of socket.setEncoding('utf8')) text += chunk
  return text
}

async function raw(text: string): Promise<string> {
  const socket = await open()
  socket.write(text)
  return await rest(socket)
}

test('an unknown path is answered with a problem, with any body', async () => {
  for (const path of [
    '/',
    '/api',
    '/api/v1',
    '/api/v1/',
    '/api/v1/nothing',
    '/api/v2/notifications',
    '/healthz/',
    '/api/v1/notifications/',
    '/api/v1/recipients/',
    '/api/v1/recipients//limits',
    '/u/x',
  ]) {
    for (const init of [
      {},
      { method: 'POST', body: '{broken' },
      { method: 'POST', body: 'x', headers: { 'content-type': 'text/x' } },
    ]) {
      const response = await fetch(stub.url + path, init)
      assert.equal(response.status, 404, path)
      assert.equal(response.headers.get('content-type'), 'application/problem+json; charset=utf-8')
      assert.deepEqual(await response.json(), {
        requestId: response.headers.get('x-request-id'),
        type: 'urn:sluice:problem:not-found',
        title: 'Not found',
        status: 404,
        detail: 'There is nothing at this path.',
        code: 'NOT_FOUND',
      })
    }
  }
})

test('an unsupported method is answered 405 with the supported ones', async () => {
  for (const [method, path, allow] of [
    ['PUT', '/notifications', 'POST, GET, HEAD'],
    ['POST', '/notifications/n1', 'GET, HEAD, DELETE'],
    ['POST', '/recipients/x', 'GET, HEAD, PUT, PATCH, DELETE'],
    ['PUT', '/notifications/batch', 'POST'],
    ['GET', '/notifications/batch', 'POST'],
    ['HEAD', '/notifications/batch', 'POST'],
    ['DELETE', '/notifications/batch', 'POST'],
    ['GET', '/decisions', 'POST'],
    ['OPTIONS', '/pools', 'GET, HEAD'],
    ['PROPFIND', '/policy', 'GET, HEAD'],
    ['POST', '/healthz', 'GET, HEAD'],
  ] as const) {
    const bodiless = method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
    const reply = await stub.ask(method, path, bodiless ? undefined : '{broken')
    assert.deepEqual([reply.status, reply.headers.get('allow')], [405, allow], `${method} ${path}`)
    if (method !== 'HEAD') assert.equal(reply.body.code, 'METHOD_NOT_ALLOWED')
  }
})

test('HEAD answers as GET without the body', async () => {
  const reply = await stub.ask('HEAD', '/healthz')
  assert.deepEqual([reply.status, reply.text], [200, ''])
})

for (const type of [
  'text/plain',
  'application/xml',
  'application/json; charset=utf-16',
  'application/jsonx',
  'nonsense',
  '*/*',
]) {
  test(`a body of the type ${type} is refused`, async () => {
    const { status, body } = await stub.ask('POST', '/notifications', JSON.stringify(message), {
      'content-type': type,
    })
    assert.deepEqual([status, body.code], [415, 'UNSUPPORTED_MEDIA_TYPE'])
  })
}

for (const type of [
  'application/json',
  'application/json;charset=UTF-8',
  'Application/JSON; charset="utf-8"',
]) {
  test(`a body of the type ${type} is accepted`, async () => {
    assert.equal((await stub.ask('POST', '/notifications', message, { 'content-type': type })).status, 202)
  })
}

test('a body without a type is refused, and so is a missing body', async () => {
  const text = JSON.stringify(message)
  const typeless = await raw(
    `POST /api/v1/notifications HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
  )
  assert.match(typeless, /^HTTP\/1.1 415 /)
  assert.equal((await stub.ask('POST', '/notifications')).body.code, 'INVALID_REQUEST')
})

for (const [what, body] of [
  ['nothing', ''],
  ['half of an object', '{"recipient":'],
  ['two objects', '{}{}'],
  ['single quotes', "{'a':1}"],
  ['a byte order mark', '\ufeff{}'],
  ['NaN', '{"data":NaN}'],
  ['a raw control character', '{"category":"a\u0001b"}'],
] as const) {
  test(`${what} is not JSON`, async () => {
    const reply = await stub.ask('POST', '/notifications', body)
    assert.deepEqual([reply.status, reply.body.code], [400, 'INVALID_JSON'])
  })
}

test('bytes that are not UTF-8 are not JSON', async () => {
  const response = await fetch(`${stub.url}/api/v1/notifications`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: Buffer.concat([Buffer.from('{"category":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')]),
  })
  assert.equal(response.status, 400)
  assert.equal(((await response.json()) as { code: string }).code, 'INVALID_JSON')
})

for (const value of ['null', '[]', '1', '"text"', 'true']) {
  test(`the JSON ${value} is refused as notification`, async () => {
    for (const path of [
      '/notifications',
      '/notifications/batch',
      '/decisions',
      '/policy/preview',
      '/policy/validate',
      '/replays',
      '/dead-letters/redrive',
    ]) {
      const { status, body } = await stub.ask('POST', path, value)
      assert.deepEqual([status, body.code], [400, 'INVALID_REQUEST'], path)
    }
  })
}

test('a body above 1 MiB is refused, with or without Content-Length', async () => {
  const large = await stub.ask('POST', '/notifications', `{"recipient":"${'x'.repeat(1_048_576)}"}`)
  assert.deepEqual([large.status, large.body.code], [413, 'PAYLOAD_TOO_LARGE'])
  const socket = await open()
  socket.on('error', () => {})
  socket.write(
    'POST /api/v1/notifications HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n',
  )
  for (let sent = 0; sent < 18 && socket.writable; sent += 1)
    socket.write(`10000\r\n${' '.repeat(65_536)}\r\n`)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  assert.match(answer.toString(), /^HTTP\/1.1 413 [\s\S]*PAYLOAD_TOO_LARGE/)
  socket.destroy()
})

for (const [method, status] of [
  ['POST', 413],
  ['PUT', 405],
] as const) {
  test(`a client that sends too much to ${method} reads ${status}, though the answer comes before all is sent`, async () => {
    const socket = await open(await startStub())
    const bytes = 32 * 1_048_576
    socket.write(
      `${method} /api/v1/notifications HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${bytes}\r\n\r\n`,
    )
    await new Promise<void>((resolve, reject) =>
      socket.write(Buffer.alloc(bytes, ' '), (error) => (error ? reject(error) : resolve())),
    )
    const [answer] = (await once(socket, 'data')) as [Buffer]
    assert.match(answer.toString(), new RegExp(`^HTTP/1.1 ${status} `))
    socket.destroy()
  })
}

test('a megabyte of brackets does not overflow the stack', async () => {
  for (const deep of [
    '['.repeat(500_000) + ']'.repeat(500_000),
    `${'{"a":'.repeat(150_000)}"\\u0000"${'}'.repeat(150_000)}`,
  ]) {
    const { status } = await stub.ask('POST', '/notifications', deep)
    assert.equal(status, 400)
  }
  const inData = `{"recipient":"x","channel":"email","template":"new-comment","data":${'{"a":'.repeat(150_000)}1${'}'.repeat(150_000)}}`
  assert.equal((await stub.ask('POST', '/notifications', inData)).body.errors[0]?.path, '/data')
})

test('invalid HTTP is answered with a problem and the connection closed', async () => {
  for (const text of [
    'NONSENSE\r\n\r\n',
    'GET / HTTP/9.9\r\n\r\n',
    'GET /healthz HTTP/1.1\r\n\r\n',
    `GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`,
  ]) {
    const answer = await raw(text)
    assert.match(answer, /^HTTP\/1.1 400 Bad Request\r\n/)
    assert.match(answer, /application\/problem\+json/)
    assert.match(answer, /"code":"INVALID_REQUEST"/)
  }
})

test('a path that cannot be decoded is answered with a problem', async () => {
  for (const path of ['/notifications/%zz', '/recipients/%ff', '/recipients/%']) {
    const { status, body } = await stub.ask('GET', path)
    assert.deepEqual([status, body.code], [400, 'INVALID_REQUEST'], path)
  }
  assert.equal((await stub.ask('GET', `/recipients/${'x'.repeat(5_000)}`)).status, 400)
  assert.equal((await stub.ask('GET', `/recipients/${'x'.repeat(257)}`)).body.errors[0]?.path, '/id')
})

const head = 'POST /api/v1/notifications HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
for (const [what, pieces] of [
  ['sends nothing', []],
  ['never ends its headers', ['POST /api/v1/notifications HTTP/1.1\r\n', 'x-a: b\r\n', 'x-c: d\r\n']],
  ['never ends its body', [`${head}content-length: 1000\r\n\r\n{`, '"a"', ':']],
] as const) {
  test(`a client that ${what} is disconnected at the deadline`, { timeout: 60_000 }, async () => {
    const socket = await open()
    socket.on('error', () => {})
    let next = 0
    const drip = setInterval(() => {
      const piece = pieces[next++] ?? (pieces.length === 0 ? '' : next % 2 === 0 ? 'x' : '-')
      if (piece !== '' && socket.writable) socket.write(piece)
    }, 150)
    const answer = await rest(socket)
    clearInterval(drip)
    assert.match(answer, /^HTTP\/1.1 408 Request Timeout\r\n[\s\S]*"code":"REQUEST_TIMEOUT"/)
  })
}

/** Answers each request after so many milliseconds, the last delay for all that follow. */
async function openSlow(t: TestContext, requestTimeoutMs: number, ...takesMs: number[]): Promise<Socket> {
  const app = createApp({ ...defaultConfig, requestTimeoutMs })
  let next = 0
  app.post('/', async () => {
    await delay(takesMs[Math.min(next++, takesMs.length - 1)])
    return 'done'
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  t.after(() => app.close())
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  return socket
}

const slowHead = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'

test('a request that is late because nothing was read while others were answered is not cut off', {
  timeout: 60_000,
}, async (t) => {
  const socket = await openSlow(t, 500, 100)
  // More than Node reads at once, so that one request is begun and the rest of it is still to be read.
  const body = JSON.stringify('x'.repeat(3_000))
  const one = `${slowHead}content-length: ${body.length}\r\n`
  socket.write(`${one}\r\n${body}`.repeat(24))
  socket.write(`${one}connection: close\r\n\r\n${body}`)
  const statuses = (await rest(socket)).match(/HTTP\/1\.1 \d+/g)
  assert.deepEqual(statuses, Array<string>(25).fill('HTTP/1.1 200'))
})

for (const [what, piece] of [
  ['headers', slowHead],
  ['body', `${slowHead}content-length: 1000\r\n\r\n{`],
] as const) {
  test(`a pipelined request that never ends its ${what} is cut off after its own deadline`, {
    timeout: 60_000,
  }, async (t) => {
    const socket = await openSlow(t, 300, 1_400, 0)
    socket.write(`${slowHead}content-length: 2\r\n\r\n{}`.repeat(2) + piece)
    const statuses = (await rest(socket)).match(/HTTP\/1\.1 \d+/g)
    assert.deepEqual(statuses, ['HTTP/1.1 200', 'HTTP/1.1 200', 'HTTP/1.1 408'])
  })
}

test('a graceful shutdown answers arrived requests and refuses new ones', {
  timeout: 60_000,
}, async () => {
  const own = await startStub({ drainMs: 60_000 })
  const reader = await open(own)
  reader.write('GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n')
  await once(reader, 'data')
  const gate = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  own.before = () => {
    reached.resolve()
    return gate.promise
  }
  const answer = own.ask('POST', '/notifications', message)
  await reached.promise
  const closed = own.close()
  await assert.rejects(fetch(`${own.url}/healthz`))
  gate.resolve()
  assert.equal((await answer).status, 202)
  await rest(reader)
  await closed
})

test('a graceful shutdown does not wait for a connection on which nothing was sent', {
  timeout: 60_000,
}, async () => {
  const own = await startStub({ drainMs: 30_000 })
  const silent = await open(own)
  const begunAt = performance.now()
  await Promise.all([own.close(), rest(silent)])
  const tookMs = performance.now() - begunAt
  assert.ok(tookMs < 10_000, `${tookMs} ms`)
})

test('a request that does not end is cut at the deadline of the graceful shutdown', async () => {
  const own = await startStub({ drainMs: 100 })
  own.before = () => new Promise(() => {})
  const answer = assert.rejects(own.ask('POST', '/notifications', message))
  while (own.drafts.length > 0) await new Promise(setImmediate)
  await new Promise((resolve) => setTimeout(resolve, 50))
  await own.close()
  await answer
})

test('a graceful shutdown may take longer than ten seconds', async (t) => {
  const app = createApp(defaultConfig)
  const done = Promise.withResolvers<void>()
  app.addHook('preClose', () => done.promise)
  await app.listen({ host: '127.0.0.1', port: 0 })
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const closed = app.close()
  for (let turn = 0; turn < 100; turn += 1) {
    await new Promise(setImmediate)
    t.mock.timers.tick(1_000)
  }
  done.resolve()
  await closed
})

test('answers about notifications carry the rate limit headers, refusals too', async () => {
  const left = new Map<string, number>()
  const own = await startStub({
    parts: {
      limitHeaders: async ({ tenant }) => ({
        'x-ratelimit-remaining-tenant': String(left.get(tenant) ?? 100),
      }),
    },
  })
  own.before = () => {
    left.set('default', 99)
  }
  const remaining = async (...sent: Parameters<Stub['ask']>) =>
    (await own.ask(...sent)).headers.get('x-ratelimit-remaining-tenant')
  assert.equal(await remaining('POST', '/notifications', '{'), '100')
  assert.equal(await remaining('POST', '/notifications', message), '99')
  assert.equal(await remaining('GET', '/notifications', undefined, { 'x-tenant-id': 'other' }), '100')
  assert.equal(await remaining('GET', '/notifications/none'), '99')
  assert.equal(await remaining('PUT', '/notifications', {}), '99')
  assert.equal(await remaining('GET', '/notifications/a/b'), '99')
  assert.equal(await remaining('GET', '/notifications-of-old'), null)
  assert.equal(await remaining('PUT', '/notifications', {}, { 'x-tenant-id': 'é' }), null)
  assert.equal(await remaining('GET', '/pools'), null)
  assert.equal(await remaining('GET', '/notifications', undefined, { 'x-tenant-id': 'é' }), null)
})

/** Single headers are given once, and a body is sent without encoding. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { message, startStub } from './stub.ts'

const stub = await startStub()

/** Sends these lines over a socket of its own and returns the status and the body. */
async function send(lines: readonly string[], body = ''): Promise<{ status: number; text: string }> {
  const socket = connect(Number(new URL(stub.url).port), '127.0.0.1')
  await once(socket, 'connect')
  const length = body === '' ? [] : [`content-length: ${Buffer.byteLength(body)}`]
  socket.write([...lines, ...length, 'connection: close', '', body].join('\r\n'))
  let text = ''
  for await (const chunk of socket) text += chunk
  return { status: Number(/^HTTP\/1.1 (\d+)/.exec(text)?.[1]), text }
}

const post = ['POST /api/v1/notifications HTTP/1.1', 'host: localhost', 'content-type: application/json']

for (const [name, one, two] of [
  ['Host', 'localhost', 'evil.example'],
  ['X-Tenant-Id', 'one', 'two'],
  ['X-Module-Id', 'one', 'one'],
  ['Idempotency-Key', 'k1', 'k2'],
  ['Authorization', 'Bearer a', 'Bearer b'],
] as const) {
  test(`two ${name} headers are refused, in any notation`, async () => {
    const lines = name === 'Host' ? post.filter((line) => !line.startsWith('host')) : post
    const before = stub.drafts.length
    const twice = [...lines, `${name}: ${one}`, `${name.toUpperCase()}: ${two}`]
    const { status, text } = await send(twice, JSON.stringify(message))
    assert.equal(status, 400)
    assert.match(text, /INVALID_REQUEST/)
    assert.ok(text.includes(`"/${name}"`), text)
    assert.equal(stub.drafts.length, before, 'nothing was accepted')
    const probe = ['GET /healthz HTTP/1.1', ...twice.slice(1).filter((line) => !line.startsWith('content'))]
    assert.equal((await send(probe)).status, 400, 'on a route that is open to all, too')
  })
}

test('other headers may be given twice', async () => {
  const { status } = await send(
    [...post, 'accept: a/b', 'accept: c/d', 'x-note: 1', 'x-note: 2'],
    JSON.stringify(message),
  )
  assert.equal(status, 202)
})

for (const encoding of ['gzip', 'br', 'zstd', 'gzip, identity', 'aes128gcm'])
  test(`a body in ${encoding} is refused and not read as JSON`, async () => {
    const { status, text } = await send([...post, `content-encoding: ${encoding}`], JSON.stringify(message))
    assert.equal(status, 415)
    assert.match(text, /UNSUPPORTED_MEDIA_TYPE/)
  })

test('a body with Content-Encoding identity is accepted', async () => {
  assert.equal((await send([...post, 'content-encoding: Identity'], JSON.stringify(message))).status, 202)
})

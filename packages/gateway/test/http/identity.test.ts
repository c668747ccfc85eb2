import assert from 'node:assert/strict'
import { request } from 'node:http'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { feedbackScope, loopbackIdentity, operatorScope, publishScope } from '../../src/http/identity.ts'
import { startStub } from './stub.ts'

test('without keys every caller on this machine has every scope, as the default tenant or the one of the headers', () => {
  const { tenant, module, scopes } = loopbackIdentity({ headers: { host: 'localhost:8080' } })
  assert.deepEqual(
    [tenant, module, [...scopes]],
    ['default', 'default', [operatorScope, publishScope, feedbackScope]],
  )
  const named = loopbackIdentity({ headers: { 'x-tenant-id': 'acme', 'x-module-id': 'shop' } })
  assert.deepEqual([named.tenant, named.module, named.asTenant], ['acme', 'shop', true])
  assert.deepEqual([named.subject, named.expiresAtMs], [undefined, undefined])
})

for (const host of [
  'localhost',
  'LOCALHOST:1',
  'console.localhost:8080',
  '127.0.0.1',
  '127.1.2.3:65535',
  '[::1]',
  '[::1]:8080',
]) {
  test(`without keys ${host} is accepted as this machine`, () => {
    loopbackIdentity({ headers: { host } })
    loopbackIdentity({ headers: { host, origin: `http://${host}` } })
    loopbackIdentity({ headers: { host, origin: `https://${host}` } })
  })
}

const refused = (headers: Parameters<typeof loopbackIdentity>[0]['headers']): void =>
  void assert.throws(
    () => loopbackIdentity({ headers }),
    (error) => error instanceof SluiceError && error.code === 'FORBIDDEN',
  )

for (const host of [
  'evil.example',
  'build-7:8080',
  'localhost.evil.example',
  '127.0.0.1.evil.example',
  'evil.example:8080',
  'localhost@evil.example',
  '10.0.0.1',
  '0.0.0.0:8080',
  '[::]',
  '2130706433',
  '[::1].evil.example',
  'localhost:80:80',
  'localhost:',
  '',
  ' localhost',
  'localhost/',
]) {
  test(`without keys a request for "${host}" is refused: DNS rebinding`, () => {
    refused({ host })
    refused({ host: '127.0.0.1:8080', origin: `http://${host}` })
  })
}

for (const origin of ['null', 'file://', 'chrome-extension://localhost', 'localhost.evil.example'])
  test(`without keys a web page of ${origin} is refused`, () => refused({ host: 'localhost', origin }))

test('a web page from elsewhere cannot send anything, over a real socket', async () => {
  const stub = await startStub()
  const { port } = new URL(stub.url)
  const send = (headers: Record<string, string>): Promise<number> =>
    new Promise((resolve, reject) => {
      const outgoing = request(
        {
          port,
          method: 'POST',
          path: '/api/v1/dead-letters/redrive',
          headers: { ...headers, 'content-type': 'application/json' },
        },
        (answer) => {
          answer.resume()
          resolve(answer.statusCode ?? 0)
        },
      )
      outgoing.on('error', reject)
      outgoing.end('{"all":true}')
    })
  assert.equal(await send({ host: 'evil.example' }), 403)
  assert.equal(await send({ host: `127.0.0.1:${port}`, origin: 'https://evil.example' }), 403)
  assert.equal(stub.redrives.length, 0)
  assert.equal(await send({ host: `127.0.0.1:${port}`, origin: `http://localhost:${port}` }), 200)
  assert.equal(stub.redrives.length, 1)
})

const askAs = (url: string, path: string, host: string, method = 'GET'): Promise<number> =>
  new Promise((resolve, reject) => {
    const outgoing = request({ port: new URL(url).port, method, path, headers: { host } }, (answer) => {
      answer.resume()
      resolve(answer.statusCode ?? 0)
    })
    outgoing.on('error', reject)
    outgoing.end()
  })

const links = {
  urlFor: () => 'https://notify.example.com/u/t',
  read: () => ({ tenant: 'default', recipient: 'ada', category: 'news', channel: 'email' as const }),
}

test('without keys no route answers to a host name from elsewhere', async () => {
  const stub = await startStub({ parts: { links: links as never } })
  const paths = ['/metrics', '/healthz', '/readyz', '/openapi.json', '/u/t', '/api/v1/notifications']
  for (const path of paths) {
    assert.equal(await askAs(stub.url, path, 'evil.example'), 403, path)
    assert.notEqual(await askAs(stub.url, path, 'localhost:8080'), 403, path)
  }
})

test('a one-click link is also answered under the public host name', async () => {
  const publicUrl = 'https://notify.example.com'
  const stub = await startStub({ publicUrl, parts: { links: links as never } })
  assert.equal(await askAs(stub.url, '/u/t', 'notify.example.com'), 200)
  assert.equal(await askAs(stub.url, '/u/t', 'evil.example'), 403)
  assert.equal(await askAs(stub.url, '/metrics', 'notify.example.com'), 403)
})

import assert from 'node:assert/strict'
import { request } from 'node:http'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { loopbackIdentity, operatorScope, publishScope } from '../../src/intake/identity.ts'
import { startStub } from './stub.ts'

test('without keys everybody on this machine is the default tenant, or whom the headers name, with every scope', () => {
  const { tenant, module, scopes } = loopbackIdentity({ headers: { host: 'localhost:8080' } })
  assert.deepEqual([tenant, module, [...scopes]], ['default', 'default', [operatorScope, publishScope]])
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
  test(`without keys ${host} is this machine`, () => {
    loopbackIdentity({ headers: { host } })
    loopbackIdentity({ headers: { host, origin: `http://${host}` } })
    loopbackIdentity({ headers: { host, origin: `https://${host}` } })
  })
}

test('a name without a dot is of this network, but a page under it may not send', () => {
  loopbackIdentity({ headers: { host: 'build-7:8080' } })
  refused({ host: 'build-7:8080', origin: 'http://build-7:8080' })
})

const refused = (headers: Parameters<typeof loopbackIdentity>[0]['headers']): void =>
  void assert.throws(
    () => loopbackIdentity({ headers }),
    (error) => error instanceof SluiceError && error.code === 'FORBIDDEN',
  )

for (const host of [
  'evil.example',
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
  test(`without keys a page of ${origin} is refused`, () => refused({ host: 'localhost', origin }))

test('a page from elsewhere cannot send anything, over a real socket', async () => {
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

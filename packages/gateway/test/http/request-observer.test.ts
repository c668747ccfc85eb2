/** Requests are named and measured, whatever becomes of them. */
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { message, startStub } from './stub.ts'

const stub = await startStub()

async function value(series: string): Promise<number> {
  const { text } = await stub.ask('GET', '/metrics')
  const line = text.split('\n').find((each) => each.startsWith(`${series} `))
  return line === undefined ? 0 : Number(line.slice(series.length))
}
const durations = (route: string, method: string, status: string) =>
  value(`sluice_http_request_duration_seconds_count{route="${route}",method="${method}",status="${status}"}`)

test('the id of a request is its caller’s, or a new ULID, in the answer and in its problem', async () => {
  const own = await stub.ask('GET', '/nothing', undefined, { 'x-request-id': 'abc 42' })
  assert.deepEqual([own.headers.get('x-request-id'), own.body.requestId], ['abc 42', 'abc 42'])
  const seen = new Set<string>()
  for (const id of ['', 'x'.repeat(129), 'ü']) {
    const { headers, body } = await stub.ask('GET', '/nothing', undefined, { 'x-request-id': id })
    assert.match(headers.get('x-request-id')!, /^[0-9A-HJKMNP-TV-Z]{26}$/)
    assert.equal(body.requestId, headers.get('x-request-id'))
    seen.add(headers.get('x-request-id')!)
  }
  assert.equal(seen.size, 3)
  assert.ok((await stub.ask('POST', '/notifications', message)).headers.has('x-request-id'))
  assert.ok((await stub.ask('GET', '/healthz')).headers.has('x-request-id'))
})

test('a queued 429 names its request', async () => {
  stub.verdict = () => ({ queuedBehind: 'tenant', status: 'scheduled' })
  const { status, headers, body } = await stub.ask('POST', '/notifications', message)
  stub.verdict = () => ({})
  assert.deepEqual([status, body.requestId], [429, headers.get('x-request-id')])
})

test('input that is no HTTP is answered with an id of its own', async () => {
  const { port } = new URL(stub.url)
  const text = await new Promise<string>((resolve) => {
    let heard = ''
    const socket = connect(Number(port), '127.0.0.1', () => socket.write('nonsense\r\n\r\n'))
    socket.on('data', (bytes) => {
      heard += bytes.toString()
    })
    socket.on('close', () => resolve(heard))
  })
  const [, id] = /^x-request-id: (\S+)/m.exec(text)!
  assert.ok(text.includes(`"requestId":"${id}"`))
})

test('durations are counted by route, method and class of status, and problems by their code', async () => {
  const route = '/api/v1/notifications'
  const before = await durations(route, 'POST', '2xx')
  const refused = await value('sluice_refused_total{code="QUEUE_FULL"}')
  await stub.ask('POST', '/notifications', message)
  stub.before = () => Promise.reject(new SluiceError('QUEUE_FULL', 'No.'))
  await stub.ask('POST', '/notifications', message)
  stub.before = () => {}
  assert.equal(await durations(route, 'POST', '2xx'), before + 1)
  assert.equal(await durations(route, 'POST', '5xx'), 1)
  assert.equal(await value('sluice_refused_total{code="QUEUE_FULL"}'), refused + 1)
  await stub.ask('GET', '/notifications/n000001')
  assert.equal(await durations(`${route}/:id`, 'GET', '2xx'), 1)
  await fetch(`${stub.url}/somewhere/user-42`)
  assert.ok((await durations('none', 'GET', '4xx')) >= 1, 'an unknown path is no label')
})

test('open connections are counted', async () => {
  const { port } = new URL(stub.url)
  const before = await value('sluice_http_connections')
  const socket = connect(Number(port), '127.0.0.1')
  await new Promise((resolve) => socket.once('connect', resolve))
  assert.equal(await value('sluice_http_connections'), before + 1)
  socket.destroy()
})

/** Calls through a proxy and under an authority of one's own, over real sockets: HTTP/1.1, TLS in a tunnel, HTTP/2. */
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, request } from 'node:http'
import { createServer as createHttp2Server, createSecureServer } from 'node:http2'
import https from 'node:https'
import { type AddressInfo, connect, type Server } from 'node:net'
import { type TestContext, test } from 'node:test'
import { loadConfig } from '../../../src/config/load.ts'
import { someMessage } from '../../../src/conformance/provider.ts'
import type { Egress } from '../../../src/providers/transport/egress.ts'
import { createHttp2Caller } from '../../../src/providers/transport/http2-call.ts'
import { createWebhookProvider } from '../../../src/providers/webhook/adapter.ts'
import { certificate, certificateKey } from '../../sinks/certificate.ts'
import { createHttpSink } from '../../sinks/http.ts'

async function listening(t: TestContext, server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return (server.address() as AddressInfo).port
}

/** Forwards what it is asked for, and remembers it; with a login it insists on that. */
async function createProxy(t: TestContext, login?: string): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = []
  const isLet = ({ headers }: IncomingMessage): boolean =>
    login === undefined || headers['proxy-authorization'] === `Basic ${Buffer.from(login).toString('base64')}`
  const server = createServer((incoming, response) => {
    asked.push(`${incoming.method} ${incoming.url}`)
    if (!isLet(incoming)) return response.writeHead(407).end()
    const { method = 'GET', headers, url = '' } = incoming
    incoming.pipe(
      request(url, { method, headers, agent: false }, (answer) => {
        response.writeHead(answer.statusCode!, answer.headers)
        answer.pipe(response)
      }),
    )
  })
  server.on('connect', (incoming, socket) => {
    asked.push(`CONNECT ${incoming.url}`)
    if (!isLet(incoming)) return socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
    const { hostname, port } = new URL(`http://${incoming.url}`)
    const there = connect(Number(port), hostname, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      there.pipe(socket).pipe(there)
    })
    for (const each of [there, socket]) each.on('error', () => each.destroy())
  })
  const port = await listening(t, server)
  t.after(() => server.closeAllConnections())
  return { url: `http://${login === undefined ? '' : `${login}@`}127.0.0.1:${port}`, asked }
}

const through = (url: string, bypass: readonly string[] = []): Egress => ({
  proxy: { http: url, https: url, bypass },
})

async function createTls(t: TestContext): Promise<string> {
  const server = https.createServer({ cert: certificate, key: certificateKey }, (_, response) =>
    response.end(),
  )
  t.after(() => server.closeAllConnections())
  return `https://localhost:${await listening(t, server)}`
}

function send(t: TestContext, url: string, egress: Egress) {
  const provider = createWebhookProvider({ egress, deadlineMs: 3_000 })
  t.after(() => provider.close())
  return provider.send(someMessage('webhook'), { id: 'a', url, options: {} }, AbortSignal.timeout(5_000))
}

test('a call goes through the proxy, and bypasses it for excluded hosts', async (t) => {
  const sink = await createHttpSink()
  t.after(() => sink.close())
  const { url, asked } = await createProxy(t)
  assert.equal((await send(t, `${sink.url}/in`, through(url))).outcome, 'delivered')
  assert.deepEqual(asked, [`POST ${sink.url}/in`])
  assert.equal((await send(t, `${sink.url}/in`, through(url, ['127.0.0.1']))).outcome, 'delivered')
  assert.equal(asked.length, 1)
  assert.equal(sink.requests.length, 2)
})

test('https goes through a tunnel, and a configured authority makes its certificate trusted', async (t) => {
  const url = await createTls(t)
  const proxy = await createProxy(t)
  const refused = await send(t, url, through(proxy.url))
  assert.equal(refused.detail, 'DEPTH_ZERO_SELF_SIGNED_CERT')
  assert.equal((await send(t, url, { authorities: [certificate] })).outcome, 'delivered')
  assert.equal(proxy.asked.length, 1)
  const both = { ...through(proxy.url), authorities: [certificate] }
  assert.equal((await send(t, url, both)).outcome, 'delivered')
  assert.deepEqual(proxy.asked.at(-1), `CONNECT ${new URL(url).host}`)
})

test('a proxy gets its login, and a refusal does not show it', async (t) => {
  const sink = await createHttpSink()
  t.after(() => sink.close())
  const secure = await createTls(t)
  const { url } = await createProxy(t, 'user:canary')
  assert.equal((await send(t, sink.url, through(url))).outcome, 'delivered')
  const wrong = through(url.replace('canary', 'wrong-canary'))
  for (const target of [sink.url, secure]) {
    const result = await send(t, target, wrong)
    assert.notEqual(result.outcome, 'delivered')
    assert.doesNotMatch(JSON.stringify(result), /canary/)
  }
})

test('an address from a request is judged before the proxy connects to it', async (t) => {
  const { url, asked } = await createProxy(t)
  const provider = createWebhookProvider({ egress: through(url), deadlineMs: 3_000 })
  t.after(() => provider.close())
  for (const webhookUrl of [
    'http://localhost:1/',
    'http://127.0.0.1:1/',
    'http://[::1]:1/',
    'http://no.invalid/',
  ]) {
    const message = someMessage('webhook', { to: { id: 'u', webhookUrl } })
    const result = await provider.send(message, { id: 'a', options: {} }, AbortSignal.timeout(5_000))
    assert.equal(result.outcome, 'rejected', webhookUrl)
  }
  assert.deepEqual(asked, [])
})

for (const isSecure of [false, true])
  test(`HTTP/2 goes through a tunnel, ${isSecure ? 'with TLS inside' : 'without TLS'}`, async (t) => {
    const server = isSecure
      ? createSecureServer({ cert: certificate, key: certificateKey })
      : createHttp2Server()
    server.on('stream', (stream, headers) => {
      stream.respond({ ':status': 200 })
      stream.end(String(headers[':path']))
    })
    const origin = `http${isSecure ? 's' : ''}://localhost:${await listening(t, server as unknown as Server)}`
    const { url, asked } = await createProxy(t, 'user:pass')
    const open = (egress: Egress) =>
      createHttp2Caller({ origin, deadlineMs: 3_000, connectMs: 1_000, egress })
    const call = { url: new URL(`${origin}/x`), headers: {}, body: 'x', signal: AbortSignal.timeout(5_000) }
    const egress = { ...through(url), authorities: [certificate] }
    const caller = open(egress)
    const answers = await Promise.all([caller.call(call), caller.call(call)])
    caller.close()
    assert.deepEqual(
      answers.map((answer) => answer.answered && answer.text),
      ['/x', '/x'],
    )
    assert.deepEqual(asked, [`CONNECT ${new URL(origin).host}`])
    const refused = open(through(url.replace('pass', 'wrong')))
    const none = await refused.call(call)
    refused.close()
    assert.match(String(!none.answered && none.error?.message), /407/)
    const nowhere = open(through('http://127.0.0.1:9'))
    assert.equal((await nowhere.call(call)).answered, false)
    nowhere.close()
  })

test('NODE_USE_ENV_PROXY alone makes the gateway use the proxies of the environment', () => {
  const env = { HTTPS_PROXY: 'http://proxy:3128', NO_PROXY: 'a.example, .b.example' }
  const load = (more: object) => loadConfig({ env: { ...env, ...more }, cwd: '/tmp' }).network
  assert.equal(load({}).proxy, undefined)
  assert.deepEqual(load({ NODE_USE_ENV_PROXY: '1' }).proxy, {
    https: 'http://proxy:3128',
    bypass: ['a.example', '.b.example'],
    isWritten: false,
  })
})

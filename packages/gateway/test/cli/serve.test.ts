import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as after } from 'node:timers/promises'
import { temporaryFolder } from '../config/folder.ts'
import { type Started, start } from './process.ts'

const anyPort = { SLUICE_HTTP_PORT: '0' }

function urlIn(line: string): string {
  const url = /http:\/\/\S+/.exec(line)?.[0]
  assert.ok(url, line)
  return url
}

async function post(url: string, body: unknown): Promise<string> {
  const response = await fetch(`${url}/api/v1/notifications`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  assert.equal(response.status, 202)
  return ((await response.json()) as { notificationId: string }).notificationId
}

/** A slow provider: it holds every call until `release()`. */
async function slowProvider(
  t: TestContext,
): Promise<{ url: string; called: Promise<void>; release(): void }> {
  const called = Promise.withResolvers<void>()
  const gate = Promise.withResolvers<void>()
  const server: Server = createServer((request, response) => {
    request.resume()
    called.resolve()
    void gate.promise.then(() => response.end())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    gate.resolve()
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    called: called.promise,
    release: gate.resolve,
  }
}

/** The events of a log; every line is JSON. */
const eventsOf = (log: string): readonly string[] =>
  log
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { event: string }).event)

const text = {
  recipient: { id: 'u', phone: '+391234567890' },
  channel: 'sms',
  category: 'security',
  content: { text: 'code' },
}

async function serveSlow(
  t: TestContext,
  more = '',
): Promise<{
  started: Started
  url: string
  provider: Awaited<ReturnType<typeof slowProvider>>
  cwd: string
}> {
  const provider = await slowProvider(t)
  const cwd = temporaryFolder(t, {
    'sluice.yaml': `${more}\npools: { sms: { provider: webhook, accounts: [{ id: a, url: "${provider.url}" }] } }`,
  })
  const started = start(t, ['serve'], { cwd, env: anyPort })
  const url = urlIn(await started.firstLine)
  await post(url, text)
  await provider.called
  return { started, url, provider, cwd }
}

test('serve prints its address in one line, and SIGTERM ends it with 0', {
  timeout: 60_000,
}, async (t) => {
  const cwd = temporaryFolder(t)
  const { child, firstLine, exit, output } = start(t, ['serve'], { cwd, env: anyPort })
  const line = await firstLine
  assert.match(
    line,
    /^sluice \d+\.\d+\.\d+ listens on http:\/\/127\.0\.0\.1:\d+ · store \/.*sluice\.db · policy built-in \([0-9a-f]{16}\) · sandbox for every channel, nothing leaves this machine$/,
  )
  assert.equal((await fetch(`${urlIn(line)}/healthz`)).status, 200)
  assert.ok(existsSync(join(cwd, 'data/sluice.db')), 'the store is in the working folder')
  child.kill('SIGTERM')
  assert.deepEqual(await exit, { code: 0, signal: null })
  assert.equal(output.out, `${line}\n`)
  assert.deepEqual(eventsOf(output.err), [
    'gateway.started',
    'config.loaded',
    'gateway.draining',
    'gateway.stopped',
  ])
})

test('with --json the address is JSON, and SIGINT ends it with 0 too', { timeout: 60_000 }, async (t) => {
  const { child, firstLine, exit } = start(t, ['serve', '--json'], { cwd: temporaryFolder(t), env: anyPort })
  const { url, store, policy } = JSON.parse(await firstLine)
  assert.ok(url.startsWith('http://127.0.0.1:') && store.endsWith('sluice.db') && policy)
  child.kill('SIGINT')
  assert.deepEqual(await exit, { code: 0, signal: null })
})

test('a graceful shutdown waits for sends in flight', { timeout: 60_000 }, async (t) => {
  const { started, provider, cwd } = await serveSlow(t)
  started.child.kill('SIGTERM')
  const first = await Promise.race([started.exit.then(() => 'ended'), after(300, 'waits')])
  assert.equal(first, 'waits')
  provider.release()
  assert.deepEqual(await started.exit, { code: 0, signal: null })
  assert.equal(eventsOf(started.output.err).at(-1), 'gateway.stopped')
  const again = start(t, ['serve'], { cwd, env: anyPort })
  const url = urlIn(await again.firstLine)
  const { items } = (await (await fetch(`${url}/api/v1/notifications?recipient=u`)).json()) as {
    items: { status: string }[]
  }
  assert.deepEqual(
    items.map(({ status }) => status),
    ['delivered'],
    'it was settled before the end',
  )
})

test('a graceful shutdown ends with 0 within http.drainMs, even where the provider never answers', {
  timeout: 60_000,
}, async (t) => {
  const { started } = await serveSlow(t, 'http: { drainMs: 3s }')
  const from = performance.now()
  started.child.kill('SIGTERM')
  assert.deepEqual(await started.exit, { code: 0, signal: null })
  const tookMs = performance.now() - from
  assert.ok(tookMs > 2_000 && tookMs < 3_000, `${tookMs} ms`)
  assert.match(
    started.output.err,
    /not all that was in flight settled within 3000 ms; the rest is found again at the next start/,
  )
})

test('a second signal exits at once; duplicates of the same Ctrl-C count as one', {
  timeout: 60_000,
}, async (t) => {
  const { started } = await serveSlow(t)
  started.child.kill('SIGINT')
  started.child.kill('SIGINT')
  assert.equal(await Promise.race([started.exit.then(() => 'ended'), after(800, 'waits')]), 'waits')
  started.child.kill('SIGINT')
  assert.deepEqual(await started.exit, { code: 1, signal: null })
  assert.match(started.output.err, /stopped at once/)
})

test('an address that is in use is reported with a way to fix it, and exit code 2', {
  timeout: 60_000,
}, async (t) => {
  const taken = createTcpServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  t.after(() => taken.close())
  const { port } = taken.address() as AddressInfo
  const { exit, output } = start(t, ['serve'], {
    cwd: temporaryFolder(t),
    env: { SLUICE_HTTP_PORT: String(port) },
  })
  assert.deepEqual(await exit, { code: 2, signal: null })
  assert.equal(
    output.err,
    `sluice: http: 127.0.0.1:${port} is in use by another process; set another with http.port or SLUICE_HTTP_PORT (0 takes any free one)\n`,
  )
})

test('an invalid configuration ends with exit code 2 before anything is opened', {
  timeout: 60_000,
}, async (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': 'http: { host: 0.0.0.0 }' })
  const { exit, output } = start(t, ['serve'], { cwd })
  assert.deepEqual(await exit, { code: 2, signal: null })
  assert.match(output.err, /sluice\.yaml:1: http\.host: "0\.0\.0\.0" is no loopback address/)
  assert.equal(existsSync(join(cwd, 'data')), false)
})

test('a store in a folder that cannot be made is reported at once, with exit code 2', {
  timeout: 60_000,
  skip: process.platform !== 'linux',
}, async (t) => {
  const { exit, output } = start(t, ['serve'], {
    cwd: temporaryFolder(t),
    env: { SLUICE_STORE: 'sqlite:/proc/sluice/data.db' },
  })
  assert.deepEqual(await exit, { code: 2, signal: null })
  assert.match(output.err, /The store file \/proc\/sluice\/data\.db cannot be opened: ENOENT/)
})

test('a start whose standard output and standard error nobody reads any more ends', async (t) => {
  const { child } = start(t, ['serve'], { cwd: temporaryFolder(t), env: anyPort })
  const ended = once(child, 'exit', { signal: AbortSignal.timeout(20_000) })
  child.stdout!.destroy()
  child.stderr!.destroy()
  await ended
})

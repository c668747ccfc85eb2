/**
 * A notification on its way to a browser: starts a gateway and a page beside it, listens as the page does, sends one
 * notification and one message, and shows what is heard. On a terminal it stays, so that the page can be opened.
 *
 *     node --conditions=sluice-source examples/websocket/run.ts
 */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../../packages/gateway/src/config/load.ts'
import { createGateway } from '../../packages/gateway/src/gateway.ts'

interface Client {
  publish(channel: string, data: unknown): boolean
  close(): void
}
interface Heard {
  readonly type: string
  readonly channel: string
  readonly data: unknown
}
interface ClientModule {
  open(options: {
    readonly url: string
    readonly channels: readonly string[]
    readonly onMessage: (message: Heard) => void
  }): Client
}

const files: Readonly<Record<string, string>> = {
  '/': 'text/html; charset=utf-8',
  '/client.mjs': 'text/javascript',
}

const folder = mkdtempSync(join(tmpdir(), 'sluice-example-'))
const path = join(folder, 'sluice.yaml')
writeFileSync(
  path,
  'http: { port: 0 }\nstore: "sqlite::memory:"\npools: { push: { provider: sandbox } }\nlog: { level: silent }\n',
)
const gateway = await createGateway(loadConfig({ path, env: {}, cwd: folder }))
const { url } = await gateway.start()
const socketUrl = `${url.replace('http', 'ws')}/ws`

const page = createServer((request, response) => {
  const name = request.url!.split('?', 1)[0]!
  const type = files[name]
  if (type === undefined) return void response.writeHead(404).end()
  const file = join(import.meta.dirname, name === '/' ? 'index.html' : name)
  response.writeHead(200, { 'content-type': type }).end(readFileSync(file))
})
await new Promise<void>((resolve) => page.listen(0, '127.0.0.1', resolve))
const pageUrl = `http://127.0.0.1:${(page.address() as AddressInfo).port}`

const heard: Heard[] = []
const { open } = (await import(new URL('client.mjs', import.meta.url).href)) as ClientModule
const client = open({
  url: socketUrl,
  channels: ['lobby', 'recipient:user-42'],
  onMessage: (message) => {
    heard.push(message)
    console.log(JSON.stringify(message))
  },
})

/** Waited for, because nobody has connected yet: it comes when the client does. */
const answer = await fetch(`${url}/api/v1/notifications`, {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    recipient: 'user-42',
    channel: 'websocket',
    content: { title: 'Shipped', text: 'Your order is on its way.' },
  }),
})
assert.equal(answer.status, 202)
const messages = (): readonly Heard[] => heard.filter(({ type }) => type === 'message')
const until = async (condition: () => boolean): Promise<void> => {
  for (let tries = 0; !condition(); tries += 1) {
    assert.ok(tries < 1_000, 'it was not heard')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
await until(() => messages().length === 1)
client.publish('lobby', 'hello')
await until(() => messages().length === 2)
assert.deepEqual(
  messages().map(({ channel }) => channel),
  ['recipient:user-42', 'lobby'],
)
assert.match(await (await fetch(pageUrl)).text(), /client\.mjs/)
assert.equal((await fetch(`${pageUrl}/client.mjs`)).status, 200)

if (process.stdout.isTTY || process.argv.includes('--stay')) {
  console.log(`\nopen ${pageUrl}/?url=${encodeURIComponent(socketUrl)}   (Ctrl-C ends it)`)
  await new Promise((resolve) => process.once('SIGINT', resolve))
}
client.close()
page.close()
page.closeAllConnections()
await gateway.stop()
rmSync(folder, { recursive: true, force: true })

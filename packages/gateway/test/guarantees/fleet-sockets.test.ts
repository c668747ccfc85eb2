/** Two gateways over one record and one Redis: WebSockets and event streams at either show what the other does. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { needs } from '../../../../scripts/services/needs.ts'
import { Client } from '../http/websocket/client.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { startFleet, type TestFleet } from './fleet.ts'

interface Delivered {
  readonly notificationId: string
}

const idOf = ({ data }: { readonly data?: unknown }): string => (data as Delivered).notificationId

describe('clients of two gateways', needs('postgres', 'redis'), () => {
  const ends: (() => unknown)[] = []
  const opened = new Set<WebSocket>()
  let fleet: TestFleet
  before(async () => {
    const policy = { version: 1, limits: [] }
    const tenants = { paced: { websocket: { rate: '50/s' } }, few: { websocket: { connections: 10 } } }
    const ending = { after: (end: unknown) => ends.push(end as () => unknown) }
    fleet = await startFleet(ending as never, { name: 'sockets', policy, tenants })
  })
  after(async () => {
    for (const socket of opened) socket.terminate()
    for (const end of ends) await end()
    await dropSchemas()
  })

  async function open(at: number, tenant = 'default'): Promise<Client> {
    const socket = new WebSocket(`${fleet.sites[at]!.url.replace('http', 'ws')}/ws`, {
      headers: { 'x-tenant-id': tenant },
    })
    opened.add(socket)
    const client = new Client(socket)
    await new Promise<void>((resolve, reject) => {
      socket.once('open', resolve)
      socket.once('error', reject)
    })
    return client
  }

  /** Opens a connection and tests if it is not one too many, for which it would be closed at once. */
  async function staysOpen(at: number, tenant: string): Promise<boolean> {
    const client = await open(at, tenant)
    const closed = await Promise.race([client.closed, sleep(300)])
    if (closed !== undefined) assert.equal(closed.code, 4429)
    client.socket.close()
    return closed === undefined
  }

  /** A connection of a recipient at one of the gateways. */
  async function connect(at: number, recipient: string): Promise<Client> {
    const client = await open(at)
    await client.subscribe(`recipient:${recipient}`)
    return client
  }

  async function notify(at: number, recipient: string): Promise<string> {
    const body = { recipient: { id: recipient }, channel: 'websocket' }
    const answer = await fleet.post(at, { body })
    assert.equal(answer.status, 202, answer.text)
    return answer.json<Delivered>().notificationId
  }

  async function statusOf(at: number, id: string): Promise<string> {
    const answer = await fleet.sites[at]!.call('GET', `/api/v1/notifications/${id}`)
    return answer.json<{ readonly status: string }>().status
  }

  async function untilStatus(at: number, id: string, status: string): Promise<void> {
    const end = performance.now() + 15_000
    for (let last = ''; last !== status; last = await statusOf(at, id)) {
      assert.ok(performance.now() < end, `${id} is ${last}`)
      await sleep(20)
    }
  }

  /** The ids that a client has heard, in their order, when nothing more comes. */
  async function heardBy(client: Client, count: number): Promise<readonly string[]> {
    const ids = []
    while (ids.length < count) ids.push(idOf(await client.nextOf('message', 15_000)))
    await sleep(300)
    return client.heard.filter(({ type }) => type === 'message').map(idOf)
  }

  test('each connection hears once what either gateway accepts, wherever it is', async () => {
    const clients = [await connect(0, 'ada'), await connect(1, 'ada'), await connect(1, 'ada')]
    const bob = await connect(1, 'bob')
    const ids: string[] = []
    for (const at of [0, 1, 0, 1]) ids.push(await notify(at, 'ada'))
    const forBob = await notify(0, 'bob')
    for (const client of clients) assert.deepEqual([...(await heardBy(client, 4))].sort(), [...ids].sort())
    assert.deepEqual(await heardBy(bob, 1), [forBob])
    for (const id of [...ids, forBob]) await untilStatus(0, id, 'delivered')
  })

  test('a notification that one gateway put back is delivered when the recipient connects to the other', async () => {
    const id = await notify(0, 'eve')
    await untilStatus(1, id, 'scheduled')
    const client = await connect(1, 'eve')
    assert.deepEqual(await heardBy(client, 1), [id])
    await untilStatus(0, id, 'delivered')
  })

  test('what a client publishes is heard once at both gateways, in the order of its publisher', async () => {
    const readers = [await open(0), await open(1)]
    for (const reader of readers) await reader.subscribe('orders')
    const other = await open(1, 'other')
    await other.subscribe('orders')
    for (let n = 0; n < 40; n += 1) readers[n % 2]!.say({ type: 'publish', channel: 'orders', data: n })
    for (const reader of readers) {
      const heard = []
      while (heard.length < 40) heard.push((await reader.nextOf('message')).data as number)
      for (const parity of [0, 1])
        assert.deepEqual(
          heard.filter((n) => n % 2 === parity),
          Array.from({ length: 20 }, (_, n) => 2 * n + parity),
        )
    }
    assert.equal(other.heard.length, 1, 'another tenant hears nothing of it')
  })

  test('the rate of a tenant holds over both gateways together', async () => {
    const clients = [await open(0, 'paced'), await open(1, 'paced')]
    const reader = await open(1, 'paced')
    await reader.subscribe('orders')
    for (let n = 0; n < 130; n += 1) clients[n % 2]!.say({ type: 'publish', channel: 'orders', data: n })
    const instants = []
    while (instants.length < 130) instants.push((await reader.nextOf('message')).at)
    // Each second admits 50: the last 30 leave in the third. Half of that would do for a rate of each.
    const tookMs = instants.at(-1)! - instants[0]!
    assert.ok(tookMs > 1_800, `${tookMs} ms`)
    for (const { heard } of clients) assert.ok(heard.some(({ code }) => code === 'WS_RATE_LIMITED'))
  })

  test('the connections of a tenant are counted over both gateways together', async () => {
    const clients = await Promise.all(Array.from({ length: 20 }, (_, n) => open(n % 2, 'few')))
    const closed = Promise.race(clients.map(async (client) => (await client.closed).code))
    assert.equal(await closed, 4429)
    const isClosed = ({ socket }: Client): boolean => socket.readyState !== WebSocket.OPEN
    while (clients.filter(isClosed).length < 10) await sleep(10)
    await sleep(200)
    assert.equal(clients.filter(isClosed).length, 10)
    for (const { socket } of clients) socket.close()
  })

  test('an event stream at one gateway shows what happens at both, each notification in its order', async () => {
    const stop = new AbortController()
    const response = await fetch(`${fleet.sites[1]!.url}/api/v1/events`, {
      headers: { 'x-tenant-id': 'streamed' },
      signal: stop.signal,
    })
    const chunks = response.body!.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]()
    let text = ''
    const until = async (isThere: () => boolean): Promise<void> => {
      while (!isThere()) text += (await chunks.next()).value ?? assert.fail('the stream ended')
    }
    await until(() => text.includes(': connected'))
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, n) => fleet.post(n % 2, { tenant: 'streamed' })),
    )
    await fleet.post(0, { tenant: 'other' })
    await until(() => text.split('"status":"delivered"').length > answers.length && text.endsWith('\n\n'))
    stop.abort()
    const statuses = new Map<string, string[]>(
      answers.map((answer) => [answer.json<Delivered>().notificationId, []]),
    )
    for (const [, data] of text.matchAll(/^event: state\ndata: (.*)$/gm)) {
      const { notificationId, status } = JSON.parse(data!)
      statuses.get(notificationId)!.push(status)
    }
    // One whose instant is a few milliseconds ahead, by the clock of Redis, is scheduled for it first.
    const seenOf = (seen: readonly string[]) => seen.filter((status, n) => n !== 1 || status !== 'scheduled')
    for (const [id, seen] of statuses)
      assert.deepEqual(seenOf(seen), ['accepted', 'queued', 'sending', 'delivered'], id)
  })

  test('the event streams of a tenant are counted over both gateways together', async () => {
    const stops: AbortController[] = []
    const stream = async (at: number): Promise<number> => {
      const stop = new AbortController()
      const { status, body } = await fetch(`${fleet.sites[at]!.url}/api/v1/events`, {
        headers: { 'x-tenant-id': 'many' },
        signal: stop.signal,
      })
      if (status === 200) stops.push(stop)
      else await body?.cancel()
      return status
    }
    const statuses = await Promise.all(Array.from({ length: 60 }, (_, n) => stream(n % 2)))
    assert.equal(statuses.filter((status) => status === 200).length, 50)
    assert.equal(statuses.filter((status) => status === 429).length, 10)
    stops.pop()!.abort()
    const end = performance.now() + 5_000
    while ((await stream(0)) !== 200) {
      assert.ok(performance.now() < end, 'a stream that ended leaves its place')
      await sleep(100)
    }
    for (const stop of stops) stop.abort()
  })

  test('clients of a gateway that stands still for two seconds miss nothing, and need not connect again', async () => {
    const client = await connect(1, 'kim')
    const { pid } = fleet.sites[1]!
    process.kill(pid!, 'SIGSTOP')
    try {
      const id = await notify(0, 'kim')
      await untilStatus(0, id, 'scheduled')
      await sleep(500)
      process.kill(pid!, 'SIGCONT')
      assert.deepEqual(await heardBy(client, 1), [id])
      await untilStatus(0, id, 'delivered')
    } finally {
      process.kill(pid!, 'SIGCONT')
    }
  })

  test('clients of a gateway that is killed miss nothing at the other', async () => {
    const names = Array.from({ length: 20 }, (_, n) => `moving ${n}`)
    const sent = new Map<string, Set<string>>(names.map((name) => [name, new Set()]))
    const heard = new Map<string, Set<string>>(names.map((name) => [name, new Set()]))
    let current = await Promise.all(names.map((name) => connect(1, name)))
    await Promise.all(Array.from({ length: 10 }, () => open(1, 'few')))
    assert.equal(await staysOpen(0, 'few'), false)
    const collect = (clients: readonly Client[]): void => {
      for (const [n, { heard: messages }] of clients.entries())
        for (const message of messages)
          if (message.type === 'message') heard.get(names[n]!)!.add(idOf(message))
    }
    const send = () => Promise.all(names.map(async (name) => sent.get(name)!.add(await notify(0, name))))
    await send()
    const killed = send().then(() => send())
    await sleep(15)
    await fleet.sites[1]!.kill()
    collect(current)
    await killed
    await send()
    const before = current
    current = await Promise.all(names.map((name) => connect(0, name)))
    await send()
    const end = performance.now() + 30_000
    for (;;) {
      collect(before)
      collect(current)
      const missing = names.flatMap((name) => [...sent.get(name)!].filter((id) => !heard.get(name)!.has(id)))
      if (missing.length === 0) break
      if (performance.now() > end) {
        const { text } = await fleet.sites[0]!.call('GET', `/api/v1/notifications/${missing[0]}?explain=true`)
        assert.fail(`${missing.length} are missing, of them ${text}`)
      }
      await sleep(100)
    }
    while (!(await staysOpen(0, 'few')))
      assert.ok(performance.now() < end, 'the connections of the killed gateway count for ever')
  })

  test('a gateway that is shut down closes its connections with 1001', async () => {
    const client = await connect(0, 'ada')
    const ended = fleet.sites[0]!.terminate()
    assert.equal((await client.closed).code, 1001)
    assert.equal((await ended).code, 0)
  })
})

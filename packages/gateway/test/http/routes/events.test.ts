/** Event readers get the changes of their tenant, and their backlog is bounded. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { createEventRoutes } from '../../../src/http/routes/events.ts'
import type { Notification } from '../../../src/model.ts'
import { message, startStub } from '../stub.ts'

const stub = await startStub()
/** Listeners that stay: those of the metrics and of the overview. */
const permanent = stub.listeners.size

interface Stream {
  /** Resolves with the next text that contains this. */
  until(part: string): Promise<string>
  close(): void
}

async function open(query = '', headers: Record<string, string> = {}): Promise<Stream> {
  const abort = new AbortController()
  const response = await fetch(`${stub.url}/api/v1/events${query}`, { headers, signal: abort.signal })
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('content-type'), 'text/event-stream')
  const chunks = response.body!.pipeThrough(new TextDecoderStream())[Symbol.asyncIterator]()
  let seen = ''
  const stream = {
    async until(part: string) {
      while (!seen.includes(part)) {
        const { value, done } = await chunks.next()
        assert.ok(!done, `the stream ended before ${part}: ${seen}`)
        seen += value
      }
      return seen
    },
    close: () => abort.abort(),
  }
  await stream.until(': connected')
  return stream
}

test('a stream may be narrowed to one notification or one recipient', async () => {
  const { body } = await post('default', 'before')
  const streams = await Promise.all([
    open(`?notification=${body.notificationId}`),
    open('?recipient=user-43'),
    open('?recipient=user-42'),
  ])
  const notification = stub.notifications.get(String(body.notificationId))!
  const other = { ...notification, id: 'other', to: { id: 'user-43' } }
  for (const each of [notification, other])
    for (const listener of stub.listeners)
      listener({ notification: each, events: [{ at: 0, status: 'queued' }] })
  const texts = await Promise.all([
    streams[0]!.until(`"notificationId":"${body.notificationId}"`),
    streams[1]!.until('"notificationId":"other"'),
    streams[2]!.until(`"notificationId":"${body.notificationId}"`),
  ])
  for (const stream of streams) stream.close()
  assert.deepEqual(
    texts.map((text) => text.split('event: state').length - 1),
    [1, 1, 1],
  )
})

const post = (tenant: string, actor: string) =>
  stub.ask('POST', '/notifications', { ...message, actor }, { 'x-tenant-id': tenant })

test('a change of state is an event with all fields that a console needs', async () => {
  const stream = await open()
  const { body } = await post('default', 'a1')
  const text = await stream.until('"status":"queued"')
  stream.close()
  const events = text.split('\n\n').filter((part) => part.startsWith('event: state\ndata: '))
  const { at, ...event } = JSON.parse(events[1]!.slice('event: state\ndata: '.length))
  assert.match(at, /^\d{4}-.*Z$/)
  assert.deepEqual(event, {
    notificationId: body.notificationId,
    tenant: 'default',
    module: 'default',
    recipient: 'user-42',
    channel: 'email',
    category: 'product',
    priority: 'normal',
    actor: 'a1',
    status: 'queued',
  })
})

test('a tenant sees its own events, an operator all or those of one tenant', async () => {
  const [own, all, asked] = await Promise.all([
    open('', { 'x-tenant-id': 'one' }),
    open(),
    open('?tenant=two'),
  ])
  await post('one', 'first')
  await post('two', 'second')
  await post('one', 'third')
  await post('two', 'fourth')
  assert.equal((await own.until('third')).includes('second'), false)
  assert.equal((await asked.until('fourth')).includes('first'), false)
  assert.match(await all.until('fourth'), /first[\s\S]*second[\s\S]*third/)
  for (const stream of [own, all, asked]) stream.close()
})

/** Waits until only the listeners that stay are left. */
async function allGone(): Promise<void> {
  while (stub.listeners.size > permanent) await wait(5)
}

test('the listener ends with the last reader', async () => {
  await allGone()
  const stream = await open()
  assert.equal(stub.listeners.size, permanent + 1)
  stream.close()
  await allGone()
})

test('a slow reader is disconnected', { timeout: 20_000 }, async () => {
  await allGone()
  const socket = connect(Number(new URL(stub.url).port), '127.0.0.1')
  await once(socket, 'connect')
  socket.write('GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n')
  await once(socket, 'data')
  socket.pause()
  assert.equal(stub.listeners.size, permanent + 1)
  const [notification] = stub.notifications.values()
  const large = { at: 1, status: 'dead' as const, detail: 'x'.repeat(10_000) }
  while (stub.listeners.size > permanent) {
    for (let count = 0; count < 100; count += 1) {
      for (const listener of stub.listeners) listener({ notification: notification!, events: [large] })
    }
    await wait(1)
  }
  socket.destroy()
})

/** Starts streams without sockets, with a clock that stands still. */
function startEvents(bounds: Partial<Parameters<typeof createEventRoutes>[0]> = {}) {
  const beats: (() => void)[] = []
  const events = createEventRoutes({
    changes: { subscribe: () => () => {} },
    clock: {
      now: () => 0,
      monotonic: () => 0,
      at(_instant, beat) {
        beats.push(beat)
        return () => {}
      },
      soon: (callback) => callback(),
    },
    ...bounds,
  })
  function connectReader(tenant = 't') {
    const written: string[] = []
    const closers: (() => void)[] = []
    const raw = {
      destroyed: false,
      writableEnded: false,
      writableLength: 0,
      writeHead() {},
      on: (event: string, listener: () => void) => void (event === 'close' && closers.push(listener)),
      write: (text: string) => written.push(text),
      end() {
        raw.writableEnded = true
        for (const close of closers) close()
      },
    }
    const caller = { tenant, module: 'm', scopes: new Set<string>() }
    events.routes[0]!.handle({ query: {}, headers: {}, caller } as never, { raw, hijack() {} } as never)
    return { raw, written }
  }
  return { events, connectReader, beat: () => beats.at(-1)!() }
}

test('readers get heartbeats, and end with the gateway', async () => {
  const { events, connectReader, beat } = startEvents()
  const reader = connectReader()
  await wait(0)
  beat()
  await wait(0)
  assert.deepEqual(reader.written, [': connected\n\n', ':\n\n'])
  events.close()
  assert.equal(reader.raw.writableEnded, true)
})

test('above the bound the tenant with the most streams loses its oldest, and no other does', async () => {
  const { events, connectReader } = startEvents({ readersMax: 3 })
  const quiet = connectReader('quiet')
  const noisy = [connectReader('noisy'), connectReader('noisy'), connectReader('noisy')]
  assert.deepEqual(
    [quiet, ...noisy].map(({ raw }) => raw.writableEnded),
    [false, true, false, false],
  )
  events.close()
})

test('a tenant has 50 streams; the 51st is refused with a problem, and no open stream ends', async () => {
  const quiet = await open('', { 'x-tenant-id': 'quiet' })
  const streams = await Promise.all(Array.from({ length: 50 }, () => open('', { 'x-tenant-id': 'crowd' })))
  const refused = await stub.ask('GET', '/events', undefined, { 'x-tenant-id': 'crowd' })
  assert.deepEqual([refused.status, refused.body.code], [429, 'REQUEST_LIMIT_EXCEEDED'])
  assert.match(refused.headers.get('retry-after') ?? '', /^[1-9]\d*$/)
  await post('quiet', 'still here')
  await quiet.until('still here')
  streams.pop()!.close()
  await wait(50)
  const again = await open('', { 'x-tenant-id': 'crowd' })
  for (const stream of [quiet, again, ...streams]) stream.close()
})

test('an event does not contain content', async () => {
  const stream = await open()
  const secret: Partial<Notification> = { content: { text: 'the code is 1234' }, data: { code: '1234' } }
  stub.verdict = () => secret
  await post('default', 'secretive')
  stub.verdict = () => ({})
  assert.equal((await stream.until('secretive')).includes('1234'), false)
  stream.close()
})

/** The overview as a stream: a tick each second, missed seconds after a reconnect, and a bounded number of readers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startKeyed } from '../../guarantees/keyed.ts'
import { createSigner, tokenFor } from '../../tokens.ts'
import { openEvents } from '../sse-reader.ts'
import { startStub } from '../stub.ts'

interface Tick {
  readonly id: number
  readonly data: { readonly at: string; readonly series: Readonly<Record<string, number>> } & Readonly<
    Record<string, unknown>
  >
}

const stub = await startStub()
const path = '/api/v1/overview/stream'

async function open(headers: Record<string, string> = {}) {
  const { events, ...stream } = await openEvents<Tick['data']>(`${stub.url}${path}`, 'tick', headers)
  /** Resolves with so many ticks from the first one on. */
  return { ...stream, ticks: (count: number): Promise<readonly Tick[]> => events(count) }
}

test('a reader gets all figures first, then each second its point and what has changed', async () => {
  const stream = await open()
  let ticks = await stream.ticks(3)
  // In the first second of a process, on a machine that is late, the points of missed seconds come before the figures.
  const hasFigures = ({ data }: Tick): boolean => 'waiting' in data
  while (ticks.findIndex(hasFigures) !== ticks.length - 3) ticks = await stream.ticks(ticks.length + 1)
  stream.close()
  const [first, second, third] = ticks.slice(-3) as [Tick, Tick, Tick]
  for (const name of [
    'waiting',
    'dueNow',
    'oldestDueMs',
    'deadLetters',
    'accounts',
    'unaccounted',
    'problems',
  ])
    assert.ok(name in first.data, name)
  assert.deepEqual([second.id, third.id], [first.id + 1, first.id + 2])
  assert.equal(new Date(second.data.at).getTime(), second.id * 1_000)
  assert.deepEqual(Object.keys(second.data), ['at', 'series'], 'nothing has changed')
  assert.ok(Object.values(second.data.series).every((value) => typeof value === 'number'))
  assert.ok(JSON.stringify(first).length < 2_048)
})

test('a reader that comes back gets the seconds that it missed, once each', async () => {
  const before = await open()
  const [last] = await before.ticks(1)
  before.close()
  await stub.ask('GET', '/nowhere')
  await new Promise((resolve) => setTimeout(resolve, 2_100))
  const after = await open({ 'last-event-id': String(last!.id) })
  let ticks = await after.ticks(2)
  while (!('dueNow' in ticks.at(-1)!.data)) ticks = await after.ticks(ticks.length + 1)
  after.close()
  assert.deepEqual(
    ticks.map(({ id }) => id - last!.id),
    ticks.map((_, index) => index + 1),
  )
  assert.ok(
    ticks.slice(0, -1).every(({ data }) => !('waiting' in data)),
    'only the newest has the figures',
  )
})

test('an id that is none is no reason to refuse a reader', async () => {
  for (const id of ['yesterday', '9'.repeat(400), '-1']) {
    const stream = await open({ 'last-event-id': id })
    assert.equal((await stream.ticks(1)).length, 1)
    stream.close()
  }
})

test('the 51st reader is refused until one leaves', async () => {
  const streams = await Promise.all(Array.from({ length: 50 }, () => open()))
  const refused = await fetch(`${stub.url}${path}`)
  assert.equal(refused.status, 429)
  assert.equal(((await refused.json()) as { code: string }).code, 'REQUEST_LIMIT_EXCEEDED')
  assert.ok(Number(refused.headers.get('retry-after')) > 0)
  streams[0]!.close()
  for (const until = performance.now() + 30_000; performance.now() < until; ) {
    const { status, body } = await fetch(`${stub.url}${path}`)
    await body?.cancel()
    if (status === 200) {
      for (const stream of streams) stream.close()
      return
    }
  }
  assert.fail('the place of a reader that left stays taken')
})

test('a tenant without a scope that reads all may not follow the overview', async (t) => {
  const signer = createSigner('ES256')
  const keyed = await startKeyed(t, signer)
  const { status, body } = await keyed.ask('GET', path, { token: tokenFor(signer, { tenant: 'alpha' }) })
  assert.deepEqual([status, body.code], [403, 'FORBIDDEN'])
})

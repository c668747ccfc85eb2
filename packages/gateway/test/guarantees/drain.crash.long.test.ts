/**
 * Being told to stop is no crash: under load the gateway ends with 0 in its time, nothing is lost and nothing is sent
 * twice. And a client that never believes an answer, repeating each request five times under one key, gets one message.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, createSite, type SinkProcess, type Site, startSink } from '../child.ts'

const drainMs = 10_000
const policy = { version: 1, limits: [] }

async function siteBefore(t: TestContext, sink: SinkProcess<'http'>, config: object = {}): Promise<Site> {
  const account = { id: 'hook', url: `${sink.url}/in`, rate: 'unlimited' }
  const pools = { email: { provider: 'webhook', accounts: [account] } }
  return createSite(t, { policy, config: { http: { drainMs }, pools, ...config } })
}

const body = (index: number) => ({
  recipient: { id: `person-${index % 50}`, email: `person-${index % 50}@example.com` },
  channel: 'email',
  content: { subject: `Message ${index}`, text: `Message ${index}` },
})

const arrivedIds = async (sink: SinkProcess<'http'>): Promise<string[]> =>
  (await sink.dump()).requests.map(({ headers }) => headers['webhook-id'] as string)

async function until(what: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await what()) return
    await sleep(100)
  }
}

test('SIGTERM under load ends with 0 in time; what was accepted arrives once, now or after the next start', async (t) => {
  const sink = await startSink(t, 'http')
  // Slow enough that much is in flight and more is queued when the signal comes.
  await sink.rules([{ delayMs: 50 }])
  const site = await siteBefore(t, sink)
  await site.start()

  const accepted = new Set<string>()
  let unanswered = 0
  let stopping = false
  async function client(number: number): Promise<void> {
    for (let index = number; !stopping; index += 16) {
      const answer = await site.call('POST', '/api/v1/notifications', body(index)).catch(() => undefined)
      if (answer?.status === 202) accepted.add(answer.json<{ notificationId: string }>().notificationId)
      else unanswered += 1
    }
  }
  for (let round = 1; round <= 3; round += 1) {
    stopping = false
    const clients = Array.from({ length: 16 }, (_, number) => client(number))
    await sleep(1_000)
    const end = await site.terminate()
    stopping = true
    await Promise.all(clients)
    const arrived = (await arrivedIds(sink)).length
    t.diagnostic(
      `round ${round}: ended with ${end.code ?? end.signal} after ${end.tookMs.toFixed(0)} ms; ` +
        `${accepted.size} accepted so far, ${arrived} arrived, ${unanswered} requests not taken`,
    )
    assert.deepEqual([end.code, end.signal], [0, null])
    assert.ok(end.tookMs < drainMs, `${end.tookMs} ms`)
    await site.start()
  }
  await until(async () => (await arrivedIds(sink)).length >= accepted.size)
  const arrived = await arrivedIds(sink)
  const unique = new Set(arrived)
  assert.equal(arrived.length, unique.size, 'nothing has arrived twice')
  assert.deepEqual(
    [...accepted].filter((id) => !unique.has(id)),
    [],
    'everything accepted has arrived',
  )
})

test('SIGTERM while every account is blocked ends with 0 in time; nothing is lost, and no block is forgotten', async (t) => {
  const sink = await startSink(t, 'http')
  const blockMs = 6_000
  await sink.rules([{ status: 429, headers: { 'retry-after': '6' }, times: 2 }])
  const accounts = ['a', 'b'].map((id) => ({
    id,
    url: `${sink.url}/${id}`,
    rate: 'unlimited',
    concurrency: 1,
  }))
  const pools = { email: { provider: 'webhook', accounts, shedAfter: '1s' } }
  const site = await siteBefore(t, sink, { pools })
  await site.start()
  // Some have become dead letters when the signal comes, some still stand in the queue.
  for (let index = 0; index < 60; index += 1) {
    if (index === 30) await sleep(1_500)
    assert.equal((await site.call('POST', '/api/v1/notifications', body(index))).status, 202)
  }
  const end = await site.terminate()
  t.diagnostic(`ended with ${end.code ?? end.signal} after ${end.tookMs.toFixed(0)} ms`)
  assert.deepEqual([end.code, end.signal], [0, null])
  assert.ok(end.tookMs < drainMs, `${end.tookMs} ms`)
  await site.start()
  await until(async () => (await arrivedIds(sink)).length >= 62)
  const { requests } = await sink.dump()
  assert.equal(requests.length, 62)
  assert.equal(new Set(requests.map(({ headers }) => headers['webhook-id'])).size, 60)
  for (const path of ['/a', '/b']) {
    const [refused, next] = requests.filter((request) => request.path === path).map(({ at }) => at)
    if (next !== undefined) assert.ok(next - refused! >= blockMs - 10, `${path} after ${next - refused!} ms`)
  }
})

test('a client that repeats every 429, 503 and time-out five times with one key makes one message', async (t) => {
  const sink = await startSink(t, 'http')
  const tenants = { default: { rate: '30/s', modules: 'unlimited', queue: 100 } }
  const site = await siteBefore(t, sink, { tenants })
  await site.start()

  const seen: Record<string, number> = {}
  const note = (answer: Answer | undefined): void => {
    const what = answer === undefined ? 'no answer' : String(answer.status)
    seen[what] = (seen[what] ?? 0) + 1
  }
  const idsOf: Set<string>[] = []

  /** Repeats five times whatever is no 202, and goes on while nothing at all has been accepted. */
  async function post(index: number): Promise<void> {
    const ids = new Set<string>()
    idsOf[index] = ids
    for (let tries = 1; tries <= 6 || ids.size === 0; tries += 1) {
      // Some requests are cut off by their client before the answer can be there.
      const cut = tries <= 2 && index % 5 === 0
      const answer = await site
        .call(
          'POST',
          '/api/v1/notifications',
          body(index),
          { 'idempotency-key': `key-${index}` },
          cut ? 2 : 10_000,
        )
        .catch(() => undefined)
      note(answer)
      const { notificationId } = answer?.json<{ notificationId?: string }>() ?? {}
      if (notificationId !== undefined) ids.add(notificationId)
      if (answer?.status === 202) return
      await sleep(20)
    }
  }
  const count = 300
  await Promise.all(Array.from({ length: count }, (_, index) => post(index)))
  await until(async () => (await arrivedIds(sink)).length >= count)
  await sleep(500)
  const arrived = await arrivedIds(sink)
  t.diagnostic(`${count} messages; answers: ${JSON.stringify(seen)}; ${arrived.length} arrived`)
  for (const what of ['202', '429', '503', 'no answer']) assert.ok((seen[what] ?? 0) > 0, `some ${what}`)
  assert.deepEqual(
    idsOf.filter((ids) => ids.size !== 1),
    [],
    'each has one id',
  )
  assert.deepEqual(arrived.sort(), idsOf.map((ids) => [...ids][0]!).sort(), 'each has arrived, and once')
})

/**
 * The sentences of the contract on a whole gateway and real HTTP, as a client sees them from the first POST to
 * the last GET.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runningGateway } from '../cli/session.ts'

interface Answer {
  readonly status: number
  readonly headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: bodies of every form
  readonly body: any
}

const path = '/api/v1/notifications'
let serial = 0

function mail(more: object = {}): object {
  serial += 1
  return {
    recipient: { id: 'user-42', email: 'ada@example.com', timeZone: 'Europe/Rome' },
    channel: 'email',
    content: { subject: `Message ${serial}`, text: 'text' },
    ...more,
  }
}

async function client(t: Parameters<typeof runningGateway>[0], yaml: string) {
  const { url } = await runningGateway(t, yaml)
  return async (
    method: string,
    to: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Answer> => {
    const response = await fetch(`${url}${to}`, {
      method,
      headers: body === undefined ? headers : { 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      body: text === '' ? undefined : JSON.parse(text),
    }
  }
}

const unlimited = 'tenants: { default: { rate: unlimited, modules: unlimited } }\n'
const soon = (ms: number): string => new Date(Date.now() + ms).toISOString()

test('DELETE answers 204, again 204, 409 for a sent or ended notification, 404 for one of another tenant', async (t) => {
  const call = await client(t, unlimited)
  const { body: waiting } = await call('POST', path, mail({ sendAt: soon(3_600_000) }))
  const other = { 'x-tenant-id': 'other' }
  assert.equal((await call('DELETE', `${path}/${waiting.notificationId}`, undefined, other)).status, 404)
  assert.equal((await call('GET', `${path}/${waiting.notificationId}`, undefined, other)).status, 404)
  assert.equal((await call('DELETE', `${path}/${waiting.notificationId}`)).status, 204)
  assert.equal((await call('DELETE', `${path}/${waiting.notificationId}`)).status, 204)
  const same = mail()
  await call('POST', path, same)
  const { body: duplicate, status } = await call('POST', path, same)
  assert.equal(status, 202)
  assert.deepEqual([duplicate.status, duplicate.decision.reason], ['suppressed', 'duplicate'])
  const refused = await call('DELETE', `${path}/${duplicate.notificationId}`)
  assert.deepEqual([refused.status, refused.body.code], [409, 'NOT_CANCELLABLE'])
})

test('a 429 is queued: the same key gets the same answer, and DELETE gives its slot to the next', async (t) => {
  const call = await client(t, 'tenants: { default: { rate: 1/h, modules: unlimited } }\n')
  assert.equal((await call('POST', path, mail())).status, 202)
  const body = mail()
  const late = await call('POST', path, body, { 'idempotency-key': 'one' })
  assert.equal(late.status, 429)
  assert.match(late.headers.get('content-type') ?? '', /^application\/problem\+json/)
  assert.equal(late.body.code, 'RATE_LIMIT_EXCEEDED')
  assert.match(late.body.detail, /^Tenant rate limit exceeded\. Notification queued with \d+s delay\.$/)
  const again = await call('POST', path, body, { 'idempotency-key': 'one' })
  assert.deepEqual([again.status, again.body.notificationId], [429, late.body.notificationId])
  const { body: recorded } = await call('GET', `${path}/${late.body.notificationId}`)
  assert.deepEqual(
    [recorded.status, recorded.decision.reason, recorded.sendAt],
    ['scheduled', 'tenant_limit', late.body.sendAt],
  )
  assert.equal((await call('DELETE', `${path}/${late.body.notificationId}`)).status, 204)
  const next = await call('POST', path, mail())
  assert.deepEqual([next.status, next.body.sendAt], [429, late.body.sendAt])
  assert.equal((await call('POST', path, mail({ priority: 'critical' }))).status, 202)
})

test('a dry run answers as a POST would, and consumes nothing', async (t) => {
  const call = await client(t, unlimited)
  const marketing = (more: object = {}) => mail({ category: 'marketing', ...more })
  const limits = async () => (await call('GET', '/api/v1/recipients/user-42/limits')).body.limits
  const used = async () =>
    (await limits()).find((row: { window: string }) => row.window === '2/day')?.used as number
  await call('POST', path, marketing())
  const before = await used()
  for (let index = 0; index < 5; index += 1) await call('POST', '/api/v1/decisions', marketing())
  assert.equal(await used(), before)
  await call('POST', path, marketing({ sendAt: soon(5_000) }))
  const body = marketing({ sendAt: soon(10_000) })
  const dry = await call('POST', '/api/v1/decisions', body)
  const real = await call('POST', path, body)
  assert.equal(dry.status, 200)
  for (const { outcome, reason, limit } of [dry.body, real.body.decision])
    assert.deepEqual([outcome, reason, limit], ['suppress', 'over_limit', 'marketing-email'])
  for (const rule of real.body.decision.rules)
    assert.deepEqual(
      Object.keys(rule),
      ['limit', 'window', 'used', 'max', 'remaining', 'freesAt', 'admits'],
      'every rule with its fields',
    )
})

test('pages list every notification once, newest first, by every filter', async (t) => {
  const call = await client(t, unlimited)
  const ids: string[] = []
  for (let index = 0; index < 7; index += 1) {
    const category = index % 2 === 0 ? 'billing' : 'product'
    const { body } = await call('POST', path, mail({ category, sendAt: soon(3_600_000 + index) }))
    ids.unshift(body.notificationId)
  }
  await call('POST', path, mail({ recipient: { id: 'bob', email: 'bob@example.com' } }))
  async function all(query: string): Promise<string[]> {
    const found: string[] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const more: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
      const { body } = await call('GET', `${path}?limit=3&${query}${more}`)
      found.push(...body.items.map((item: { notificationId: string }) => item.notificationId))
      cursor = body.nextCursor
    }
    return found
  }
  assert.deepEqual(await all('recipient=user-42'), ids)
  assert.deepEqual(
    await all('recipient=user-42&category=product'),
    ids.filter((_, index) => index % 2 === 1),
  )
  const waiting = (await all('status=scheduled')).toSorted()
  assert.deepEqual(waiting, ids.toSorted())
  assert.deepEqual(await all('recipient=user-42&status=delivered'), [])
  assert.deepEqual(await all(`recipient=user-42&from=${soon(60_000)}`), [])
  assert.deepEqual(await all(`recipient=user-42&to=${soon(60_000)}`), ids)
  const timeline = await call('GET', '/api/v1/recipients/user-42/timeline?limit=500')
  assert.equal(timeline.body.items.length, 7)
  assert.equal(timeline.body.nextCursor, null)
})

test('a notification that cannot be sent before expiresAt is accepted, and expires in time', async (t) => {
  const call = await client(t, unlimited)
  const { status, body } = await call('POST', path, mail({ sendAt: soon(60_000), expiresAt: soon(300) }))
  assert.equal(status, 202)
  assert.equal(body.status, 'scheduled')
  const deadline = Date.now() + 30_000
  let found = await call('GET', `${path}/${body.notificationId}`)
  while (found.body.status !== 'expired' && Date.now() < deadline)
    found = await call('GET', `${path}/${body.notificationId}`)
  assert.equal(found.body.status, 'expired')
  const past = await call('POST', path, mail({ expiresAt: '2020-01-01T00:00:00Z' }))
  assert.deepEqual(
    [past.status, past.body.code, past.body.errors[0].path],
    [400, 'INVALID_REQUEST', '/expiresAt'],
  )
})

test('an opt-out by PUT stops waiting notifications; a recipient’s id belongs to one tenant', async (t) => {
  const call = await client(t, unlimited)
  const later = () => mail({ category: 'marketing', sendAt: soon(3_600_000) })
  const other = { 'x-tenant-id': 'other' }
  const { body: mine } = await call('POST', path, later())
  const { body: theirs } = await call('POST', path, later(), other)
  const recipient = { email: 'ada@example.com', optOuts: [{ category: 'marketing', channel: 'email' }] }
  assert.equal((await call('PUT', '/api/v1/recipients/user-42', recipient)).status, 200)
  const stopped = await call('GET', `${path}/${mine.notificationId}`)
  assert.equal(stopped.body.status, 'suppressed')
  assert.equal(stopped.body.timeline.at(-1).reason, 'opted_out')
  assert.equal(
    (await call('GET', `${path}/${theirs.notificationId}`, undefined, other)).body.status,
    'scheduled',
  )
  assert.equal((await call('GET', '/api/v1/recipients/user-42', undefined, other)).status, 404)
  assert.equal((await call('POST', path, later())).body.decision.reason, 'opted_out')
})

interface Job {
  readonly status: string
  readonly total: number
  readonly counts: Readonly<Record<string, number>>
  readonly refused?: readonly { readonly recipient: string; readonly code: string }[]
}

type Call = Awaited<ReturnType<typeof client>>

async function until(call: Call, jobId: string, isIt: (job: Job) => boolean): Promise<Job> {
  for (let tries = 0; tries < 1_500; tries += 1) {
    const { status, body } = await call('GET', `/api/v1/jobs/${jobId}`)
    assert.equal(status, 200)
    if (isIt(body)) return body
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error(`job ${jobId} did not come so far`)
}

const batchOf = (count: number, more: readonly object[] = []): object => ({
  ...mail(),
  recipient: undefined,
  recipients: [
    ...Array.from({ length: count - more.length }, (_, index) => ({
      id: `r${index}`,
      email: `r${index}@example.com`,
    })),
    ...more,
  ],
})

test('a batch of 500 is a job: done when all are accepted, counted further, and ended by DELETE', async (t) => {
  const call = await client(t, 'tenants: { default: { rate: 100/min, modules: unlimited } }\n')
  const body = batchOf(500, [{ id: 'misspelt', email: 'nobody' }])
  const key = { 'idempotency-key': 'campaign' }
  const opened = await call('POST', `${path}/batch`, body, key)
  assert.deepEqual([opened.status, Object.keys(opened.body)], [202, ['jobId']])
  const { jobId } = opened.body
  assert.deepEqual((await call('POST', `${path}/batch`, body, key)).body, { jobId })
  const done = await until(call, jobId, ({ status }) => status === 'done')
  assert.equal(done.total, 500)
  assert.deepEqual(
    done.refused?.map(({ recipient, code }) => [recipient, code]),
    [['misspelt', 'INVALID_REQUEST']],
  )
  const sent = await until(call, jobId, ({ counts }) => counts.delivered === 100)
  assert.deepEqual(sent.counts, { delivered: 100, scheduled: 399 })
  const { body: page } = await call('GET', `${path}?job=${jobId}&limit=500`)
  assert.deepEqual([page.items.length, page.items[0].jobId], [499, jobId])
  assert.equal(opened.headers.get('x-ratelimit-limit-tenant'), '100')

  const other = { 'x-tenant-id': 'other' }
  for (const method of ['GET', 'DELETE'])
    assert.equal((await call(method, `/api/v1/jobs/${jobId}`, undefined, other)).status, 404)
  assert.equal((await call('DELETE', `/api/v1/jobs/${jobId}`)).status, 204)
  assert.equal((await call('DELETE', `/api/v1/jobs/${jobId}`)).status, 204)
  const ended = await until(call, jobId, () => true)
  assert.deepEqual([ended.status, ended.counts], ['cancelled', { delivered: 100, cancelled: 399 }])
})

test('a job without waiting notifications cannot be cancelled; one that is too large is refused as a whole', async (t) => {
  const call = await client(t, 'tenants: { default: { rate: unlimited, modules: unlimited, queue: 300 } }\n')
  const { body } = await call('POST', `${path}/batch`, batchOf(101))
  await until(call, body.jobId, ({ counts }) => counts.delivered === 101)
  const late = await call('DELETE', `/api/v1/jobs/${body.jobId}`)
  assert.deepEqual([late.status, late.body.code], [409, 'NOT_CANCELLABLE'])
  const full = await call('POST', `${path}/batch`, batchOf(500))
  assert.deepEqual([full.status, full.body.code], [503, 'QUEUE_FULL'])
  assert.ok(Number(full.headers.get('retry-after')) > 0)
  const large = await call('POST', `${path}/batch`, batchOf(501))
  assert.deepEqual([large.status, large.body.code], [400, 'BATCH_LIMIT_EXCEEDED'])
  assert.equal((await call('GET', `${path}?limit=500`)).body.items.length, 101)
})

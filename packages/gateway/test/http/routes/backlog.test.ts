/** The routes of the backlog over a whole gateway: each tenant sees its own, each answer is bounded and read from counters. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRefusedRequests } from '../../../src/http/refused-requests.ts'
import { createBacklog } from '../../../src/ledger/backlog.ts'
import { startKeyed } from '../../guarantees/keyed.ts'
import { createSigner, tokenFor } from '../../tokens.ts'
import { startStub } from '../stub.ts'

interface Group {
  readonly key: string
  readonly count: number
  readonly emptyAt: string | null
  readonly emptyIs: string
}

test('a tenant sees its own backlog, an operator all tenants, and each answer names when it is gone', async (t) => {
  const signer = createSigner('ES256')
  const keyed = await startKeyed(t, signer)
  const token = (tenant: string, scope?: string) =>
    tokenFor(signer, { tenant, module: 'm', ...(scope === undefined ? {} : { scope }) })
  const [alpha, beta, reader] = [token('alpha'), token('beta'), token('gamma', 'sluice:read')]
  const last = new Date(Math.ceil(Date.now() / 1_000) * 1_000 + 7_200_000)
  const send = async (by: string, count: number) => {
    for (let index = 0; index < count; index += 1) {
      const { status } = await keyed.ask('POST', '/api/v1/notifications', {
        token: by,
        body: {
          recipient: { id: `u${index}`, email: 'a@example.com' },
          channel: 'email',
          category: 'billing',
          content: { subject: 's', text: `${index}` },
          sendAt: new Date(last.getTime() - index * 1_000).toISOString(),
        },
      })
      assert.equal(status, 202)
    }
  }
  await send(alpha, 3)
  await send(beta, 2)
  const ask = async (by: string, query = '') => {
    const { status, body } = await keyed.ask('GET', `/api/v1/backlog${query}`, { token: by })
    assert.equal(status, 200)
    return body.groups as Group[]
  }
  const [own] = await ask(alpha)
  assert.deepEqual(
    [own!.key, own!.count, own!.emptyAt, own!.emptyIs],
    ['send_at', 3, last.toISOString(), 'booked'],
  )
  // Another tenant's name in the query changes nothing for a tenant's token.
  assert.deepEqual(
    (await ask(beta, '?by=tenant&tenant=alpha')).map(({ key, count }) => [key, count]),
    [['beta', 2]],
  )
  assert.deepEqual(
    (await ask(reader, '?by=tenant')).map(({ key, count }) => [key, count]),
    [
      ['alpha', 3],
      ['beta', 2],
    ],
  )
  assert.deepEqual(
    (await ask(reader, '?tenant=beta')).map(({ count }) => count),
    [2],
  )
  assert.deepEqual(await ask(reader, '?channel=sms'), [])
  assert.equal((await keyed.ask('GET', '/api/v1/backlog?by=weather', { token: alpha })).status, 400)

  const overview = async (by: string, query = '') =>
    (await keyed.ask('GET', `/api/v1/overview${query}`, { token: by })).body
  const mine = await overview(alpha)
  assert.deepEqual(mine.waiting, { byReason: { send_at: 3 } })
  for (const global of ['rates', 'series', 'accounts', 'problems', 'unaccounted', 'latency'])
    assert.equal(global in mine, false, global)
  const all = await overview(reader)
  assert.deepEqual(all.waiting, { byReason: { send_at: 5 } })
  assert.equal(all.unaccounted, 0)
  assert.deepEqual((await overview(reader, '?tenant=beta')).waiting, { byReason: { send_at: 2 } })
  assert.equal((await keyed.ask('GET', '/api/v1/dead-letters/summary', { token: alpha })).status, 403)
})

test('the overview counts what happened, by second and by minute, from the start of the process', async () => {
  const stub = await startStub()
  const message = {
    recipient: { id: 'u', email: 'a@example.com' },
    channel: 'email',
    content: { text: 'x', subject: 's' },
  }
  for (let count = 0; count < 3; count += 1) await stub.ask('POST', '/notifications', message)
  await stub.ask('POST', '/notifications', '{')
  const { body } = await stub.ask('GET', '/overview')
  const series = body.series as {
    readonly accepted: number[]
    readonly requests4xx: number[]
    readonly from: string
  }
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)
  assert.deepEqual([sum(series.accepted), sum(series.requests4xx)], [3, 1])
  assert.ok(Date.parse(series.from) <= Date.now() && series.accepted.length <= 3_600)
  const minutes = (await stub.ask('GET', '/overview?step=minute')).body.series as typeof series
  assert.equal(sum(minutes.accepted), 3)
  assert.ok(minutes.accepted.length <= 1_440)
  const { latency, rates } = body as unknown as Record<string, Record<string, number>>
  assert.ok(latency!.acceptP99Ms! > 0 && rates!.accepted! > 0)
})

test('refused requests are listed with their code, for the tenant that sent them', async () => {
  const stub = await startStub()
  const asAcme = { 'x-tenant-id': 'acme', 'idempotency-key': 'k1', 'x-request-id': 'mine-1' }
  const refused = await stub.ask(
    'POST',
    '/notifications',
    { recipient: { id: 'u' }, channel: 'email', more: 1 },
    asAcme,
  )
  assert.equal(refused.status, 400)
  await stub.ask('GET', '/notifications/none', undefined, asAcme)
  await stub.ask('POST', '/notifications', '{', { 'x-tenant-id': 'other' })
  const list = async (query: string, headers = {}) =>
    (await stub.ask('GET', `/requests${query}`, undefined, headers)).body.items as unknown as Record<
      string,
      unknown
    >[]
  const [own, ...more] = await list('', { 'x-tenant-id': 'acme' })
  assert.deepEqual(more, [])
  assert.deepEqual(
    [own!.requestId, own!.code, own!.route, own!.status, own!.recipient, own!.idempotencyKey],
    ['mine-1', 'INVALID_REQUEST', '/api/v1/notifications', 400, 'u', 'k1'],
  )
  assert.deepEqual((own!.errors as { path: string }[])[0]!.path, '/more')
  assert.equal((await list('')).length, 2)
  assert.deepEqual(
    (await list('?code=INVALID_JSON')).map(({ tenant }) => tenant),
    ['other'],
  )
  assert.equal((await list('?tenant=acme&recipient=u')).length, 1)
  assert.equal((await list('?limit=1')).length, 1)
  assert.equal((await list('?tenant=acme', { 'x-tenant-id': 'other' }))[0]!.tenant, 'other')
})

test('the log of refused requests holds so many, the newest', () => {
  const kept = createRefusedRequests({ clock: { now: () => 7 }, series: { add: () => {} }, max: 3 })
  let hook: ((request: object, reply: object, done: () => void) => void) | undefined
  kept.attach({ addHook: (_name: string, given: typeof hook) => (hook = given) } as never)
  for (let id = 1; id <= 5; id += 1)
    hook!(
      { id: `${id}`, headers: {}, method: 'GET', routeOptions: {} },
      { statusCode: 400, elapsedTime: 1 },
      () => {},
    )
  assert.deepEqual(
    kept.find({ limit: 10 }).map(({ requestId }) => requestId),
    ['5', '4', '3'],
  )
})

test('the summary of dead letters has at most 200 groups', async () => {
  const backlog = createBacklog(
    Array.from({ length: 500 }, (_, index) => ({
      tenant: 'default',
      channel: 'sms' as const,
      category: 'c',
      kind: 'dead' as const,
      reason: 'attempts_exhausted' as const,
      provider: 'twilio',
      account: `a${index}`,
      second: 1_800_000_000,
      count: index + 1,
      example: 'x',
    })),
  )
  const stub = await startStub({ parts: { backlog } })
  const { body } = await stub.ask('GET', '/dead-letters/summary')
  const groups = body.groups as { readonly count: number; readonly returnsByItself: boolean }[]
  assert.deepEqual([groups.length, groups[0]!.count, groups[0]!.returnsByItself], [200, 500, false])
  const other = await stub.ask('GET', '/dead-letters/summary', undefined, { 'x-tenant-id': 'other' })
  assert.deepEqual(other.body.groups, [])
})

test('a request that a 429 queued, and one that names a notification, are listed with its id', async () => {
  const stub = await startStub({ parts: { keepsAllRequests: true } })
  const at = Date.now() + 17_500
  stub.verdict = () => ({
    status: 'scheduled',
    queuedBehind: 'tenant',
    decision: { outcome: 'delay', reason: 'tenant_limit', at, policyVersion: 'p1', rules: [] },
  })
  const message = {
    recipient: { id: 'u', email: 'ada@example.com' },
    channel: 'email',
    category: 'product',
    content: { subject: 's', text: 't' },
  }
  const queued = await stub.ask('POST', '/notifications', message)
  assert.equal(queued.status, 429)
  await stub.ask('GET', '/notifications/01ABC')
  const { body } = await stub.ask('GET', '/requests')
  assert.deepEqual(
    body.items.slice(0, 2).map(({ code, notificationId }) => [code, notificationId]),
    [
      ['NOT_FOUND', '01ABC'],
      ['RATE_LIMIT_EXCEEDED', queued.body.notificationId],
    ],
  )
})

test('every request is listed where all of them are logged, else those that were refused or failed', async () => {
  for (const keepsAllRequests of [true, false]) {
    const own = await startStub({ parts: { keepsAllRequests } })
    await own.ask('GET', '/policy')
    await own.ask('POST', '/policy/preview', {})
    const { body } = await own.ask('GET', '/requests')
    assert.deepEqual(
      body.items.slice(0, 2).map(({ status }) => status),
      keepsAllRequests ? [400, 200] : [400],
    )
  }
})

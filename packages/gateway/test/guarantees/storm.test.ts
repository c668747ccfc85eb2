/**
 * Everything a provider can do to its clients at once, over real sockets: 429 with every kind of Retry-After, hangs,
 * resets at the head and after the request, 500s. A server of its own keeps what arrives, and is what counts.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite } from '../child.ts'
import { createHttpSink, type HttpRule } from '../sinks/http.ts'

const messages = 300
const noLimits = { version: 1, limits: [] }

interface Counted {
  readonly status: string
  readonly notificationId: string
}

test('429 storms, garbage in Retry-After, hangs and resets lose nothing and call no blocked account', async (t) => {
  const rules: HttpRule[] = [
    { match: '/blocked', status: 429, headers: { 'retry-after': '3' }, times: 1 },
    { match: '/garbage', status: 429, headers: { 'retry-after': 'in a while' }, times: 1 },
    { match: '/absurd', status: 429, headers: { 'retry-after': '99999999' } },
    { match: '/shaky', do: 'hang', times: 3, after: 5 },
    { match: '/shaky', do: 'reset', times: 5, after: 10 },
    { match: '/shaky', do: 'reset-early', times: 5, after: 20 },
    { match: '/shaky', status: 503, times: 5, after: 30 },
  ]
  const sink = await createHttpSink({ rules })
  t.after(() => sink.close())
  // One call at a time: what follows a 429 was not on its way when it came.
  const accounts = ['blocked', 'garbage', 'absurd', 'shaky', 'calm'].map((id) => ({
    id,
    url: `${sink.url}/${id}`,
    rate: '100/s',
    concurrency: 1,
  }))
  const pool = { provider: 'webhook', accounts, timeout: '1s', breaker: { of: 100 } }
  const site = await createSite(t, {
    policy: noLimits,
    config: { log: { level: 'warn' }, pools: { email: pool } },
  })
  await site.start()
  const ids: string[] = []
  for (let index = 0; index < messages; index += 1) {
    const answer = await site.call('POST', '/api/v1/notifications', {
      recipient: { id: `p${index}`, email: `p${index}@example.com` },
      channel: 'email',
      content: { subject: 's', text: `${index}` },
    })
    ids.push(answer.json<{ notificationId: string }>().notificationId)
  }
  const states = async (): Promise<Map<string, number>> => {
    const counts = new Map<string, number>()
    for (let cursor = ''; ; ) {
      const page = (await site.call('GET', `/api/v1/notifications?limit=100${cursor}`)).json<{
        items: Counted[]
        nextCursor: string | null
      }>()
      for (const { status } of page.items) counts.set(status, (counts.get(status) ?? 0) + 1)
      if (page.nextCursor === null) return counts
      cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`
    }
  }
  for (let tries = 0; tries < 120; tries += 1) {
    if ((await states()).get('delivered') === messages) break
    await sleep(250)
  }
  assert.deepEqual(Object.fromEntries(await states()), { delivered: messages }, 'nothing is lost')
  const arrivals = (id: string): number[] =>
    sink.requests.filter(({ path }) => path === `/${id}`).map(({ at }) => at)
  for (const [id, leastMs] of [
    ['blocked', 3_000],
    ['garbage', 5_000],
  ] as const) {
    const [first, next] = arrivals(id)
    if (next !== undefined)
      assert.ok(next - first! >= leastMs - 5, `${id} was called ${next - first!} ms later`)
  }
  assert.equal(arrivals('absurd').length, 1)
  const report = (await site.call('GET', '/api/v1/pools')).json<{
    pools: { channel: string; accounts: { id: string; status: string; blockedUntil: string }[] }[]
  }>()
  const absurd = report.pools
    .find(({ channel }) => channel === 'email')!
    .accounts.find(({ id }) => id === 'absurd')!
  assert.equal(absurd.status, 'blocked')
  const aheadMs = new Date(absurd.blockedUntil).getTime() - Date.now()
  assert.ok(aheadMs > 86_000_000 && aheadMs <= 86_400_000, 'cut to a day')
  assert.match(site.log(), /"retryAfter":"invalid"/)
  assert.match(site.log(), /"retryAfter":"clamped"/)
  const attempts = sink.requests.map(({ headers }) => headers['webhook-id'])
  const repeated = attempts.length - new Set(attempts).size
  t.diagnostic(`${attempts.length} calls arrived for ${messages} messages, ${repeated} repetitions`)
  assert.ok(repeated <= messages * 0.2 + 40)
})

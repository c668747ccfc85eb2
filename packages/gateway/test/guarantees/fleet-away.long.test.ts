/** A gateway whose Redis goes away and comes back: it accepts as the policy says, and readiness, metrics and the log say so. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import type { Site } from '../child.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { callsOf, callsOfTenant, startFleet } from './fleet.ts'
import { overfull } from './windows.ts'

interface Readiness {
  readonly status: string | number
  readonly code?: string
  readonly degraded?: readonly string[]
}

async function readyWith(site: Site, status: number): Promise<Readiness> {
  for (const until = performance.now() + 20_000; performance.now() < until; await sleep(100)) {
    const answer = await site.call('GET', '/readyz')
    if (answer.status === status) return answer.json<Readiness>()
  }
  throw new Error(`no readiness ${status} within 20 s`)
}

const tenant = { 'x-tenant-id': 'limited' }

interface Posted {
  readonly notificationId: string
  readonly status: string
  readonly sendAt?: string
  readonly decision: { readonly outcome: string; readonly reason?: string; readonly at?: string }
}

const policy = {
  version: 1,
  limits: [
    { name: 'few', for: 'any', max: ['2/1s'], over: 'delay' },
    { name: 'rare', for: { category: 'rare' }, max: ['1/60s'], over: 'delay' },
  ],
  onStateLost: { default: 'hold', security: 'refuse' },
}
const tenants = { limited: { rate: '10/s' } }

/** A gateway over a Redis of its own, which the test stops and starts. */
async function startAlone(t: TestContext, name: string, count = 1) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-away-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const service = await startRedis({ folder })
  t.after(() => service.stop())
  const fleet = await startFleet(t, {
    name,
    redis: service.url,
    count,
    tenants,
    policy,
    config: { log: { level: 'info' } },
  })
  const post = async (body: object = {}, at = 0) => fleet.post(at, { tenant: 'limited', body })
  return { folder, service, fleet, site: fleet.sites[0]!, post }
}

describe('a gateway whose Redis is away', { ...needs('postgres', 'redis'), concurrency: true }, () => {
  after(dropSchemas)

  test('accepts undecided, decides in order when it is back, and says so meanwhile', async (t) => {
    const { folder, service, fleet, site, post } = await startAlone(t, 'away')
    assert.equal((await post()).status, 202)
    assert.match((await site.call('GET', '/metrics')).text, /^sluice_state_up 1$/m)

    await service.stop()
    const held: string[] = []
    for (let n = 0; n < 18; n += 1) {
      const answer = await post({ recipient: { id: `p${n % 3}` } })
      const { notificationId, status, decision, ...rest } = answer.json<Posted>()
      // Nobody knows what is left, and nothing passes.
      const { headers } = answer
      assert.equal(headers['x-ratelimit-limit-tenant'], '10')
      assert.equal(headers['x-ratelimit-remaining-tenant'], '0')
      assert.ok(Number(headers['x-ratelimit-reset']) > Date.now() / 1_000)
      assert.deepEqual([answer.status, status, rest], [202, 'queued', {}], answer.text)
      const { outcome, reason, at } = decision
      assert.deepEqual([outcome, reason, at], ['delay', 'state_unavailable', undefined])
      held.push(notificationId)
    }
    // A dry run answers what a notification would get.
    const tried = async (more: object) =>
      site.call(
        'POST',
        '/api/v1/decisions',
        { recipient: { id: 'p0' }, channel: 'webhook', content: { text: 'x' }, ...more },
        tenant,
      )
    const { outcome, reason } = (await tried({})).json<Posted['decision']>()
    assert.deepEqual([outcome, reason], ['delay', 'state_unavailable'])
    assert.equal((await tried({ priority: 'critical' })).json<Posted['decision']>().outcome, 'send')
    assert.equal((await tried({ category: 'security' })).status, 503)
    const refused = await post({ category: 'security' })
    assert.equal(refused.status, 503)
    assert.equal(refused.json<Readiness>().code, 'STATE_UNAVAILABLE')
    assert.equal(refused.headers['retry-after'], '1')
    const critical = (await post({ priority: 'critical', recipient: { id: 'urgent' } })).json<Posted>()
    assert.deepEqual([critical.status, critical.decision.outcome], ['queued', 'send'])
    const ready = await readyWith(site, 200)
    assert.match(ready.degraded![0]!, /^state: /)
    const metrics = (await site.call('GET', '/metrics')).text
    assert.match(metrics, /^sluice_state_up 0$/m)
    assert.match(metrics, /^sluice_state_unanswered_total [1-9]/m)
    const shown = await site.call('GET', `/api/v1/notifications/${held[0]}?explain=true`, undefined, tenant)
    assert.match(shown.text, /"status":"queued".*server of the limits/)
    const cancelled = held.pop()!
    const deleted = await site.call('DELETE', `/api/v1/notifications/${cancelled}`, undefined, tenant)
    assert.equal(deleted.status, 204)
    await sleep(1_500)
    assert.equal((await callsOf(fleet)).filter(({ id }) => held.includes(id)).length, 0)

    const again = await startRedis({ folder, port: Number(service.url.split(':').at(-1)) })
    t.after(() => again.stop())
    const calls = await callsOfTenant(fleet, 'limited', held.length + 2, 20_000)
    const sent = calls.filter(({ id }) => held.includes(id))
    assert.equal(new Set(sent.map(({ id }) => id)).size, held.length, 'all are sent')
    assert.equal(sent.length, held.length, 'each once')
    assert.ok(calls.some(({ id }) => id === critical.notificationId))
    assert.ok(calls.every(({ id }) => id !== cancelled))
    for (const [recipient, own] of Map.groupBy(sent, (call) => call.recipient)) {
      assert.equal(
        overfull(
          own.map(({ at }) => at),
          { max: 2, windowMs: 1_000 },
        ),
        0,
        recipient,
      )
      // Two leave at one instant, and meet the sink in any order.
      const inOrder = own.toSorted((a, b) => (a.id < b.id ? -1 : 1))
      const late = inOrder.filter(({ at }, index) =>
        inOrder.slice(index + 1).some((each) => each.at < at - 500),
      )
      assert.deepEqual(late, [], 'in the order of acceptance')
    }
    assert.match(site.log(), /"event":"gateway\.state_unavailable"/)
    assert.match(site.log(), /"event":"gateway\.state_available"/)
    assert.ok(!site.log().includes('"event":"gateway.error"'), site.log())
    assert.equal((await post()).json<Posted>().decision.outcome, 'send')
  })

  test('answers within the deadline while Redis is frozen, and loses nothing', async (t) => {
    const { service, fleet, post } = await startAlone(t, 'frozen', 2)
    const other = fleet.sites[1]!
    const rare = async (id: string): Promise<Posted> =>
      (await post({ category: 'rare', recipient: { id } })).json<Posted>()
    const sendAtOf = async ({ notificationId }: Posted): Promise<number> => {
      const shown = await other.call('GET', `/api/v1/notifications/${notificationId}`, undefined, tenant)
      return Date.parse(shown.json<{ readonly sendAt: string }>().sendAt)
    }
    // One of each recipient leaves; those behind it wait for a minute, and for two.
    const [, cancelled, behind] = [await rare('ada'), await rare('ada'), await rare('ada')]
    const [, forbidden] = [await rare('bob'), await rare('bob')]
    const [cancelledAt, behindAt] = [await sendAtOf(cancelled), await sendAtOf(behind)]
    assert.ok(behindAt - cancelledAt >= 60_000)
    process.kill(service.pid, 'SIGSTOP')
    const took: number[] = []
    const held: string[] = []
    try {
      const path = `/api/v1/notifications/${cancelled.notificationId}`
      assert.equal((await other.call('DELETE', path, undefined, tenant)).status, 204)
      const optOut = { optOuts: [{ category: 'rare' }] }
      const patched = await other.call('PATCH', '/api/v1/recipients/bob', optOut, tenant)
      assert.equal(patched.status, 200, patched.text)
      const gone = await other.call(
        'GET',
        `/api/v1/notifications/${forbidden.notificationId}`,
        undefined,
        tenant,
      )
      assert.equal(gone.json<Posted>().status, 'suppressed')
      for (let n = 0; n < 20; n += 1) {
        const from = performance.now()
        const answer = await post({ recipient: { id: `f${n % 4}` } })
        took.push(performance.now() - from)
        assert.equal(answer.status, 202, answer.text)
        held.push(answer.json<Posted>().notificationId)
      }
    } finally {
      process.kill(service.pid, 'SIGCONT')
    }
    // Three questions of a second are not answered; then none is asked.
    assert.ok(Math.max(...took) < 15_000, `${took.map(Math.round)}`)
    // Whoever waits behind what was cancelled moves up when Redis is back.
    for (const until = performance.now() + 60_000; performance.now() < until; await sleep(200))
      if ((await sendAtOf(behind)) < behindAt) break
    assert.ok(Math.abs((await sendAtOf(behind)) - cancelledAt) <= 1_000)
    const calls = await callsOfTenant(fleet, 'limited', held.length + 2, 20_000)
    const sent = calls.filter(({ id }) => held.includes(id))
    assert.deepEqual(sent.map(({ id }) => id).toSorted(), held.toSorted(), 'each once')
    for (const [recipient, own] of Map.groupBy(sent, (call) => call.recipient))
      assert.equal(
        overfull(
          own.map(({ at }) => at),
          { max: 2, windowMs: 1_000 },
        ),
        0,
        recipient,
      )
  })

  for (const end of ['kill', 'terminate'] as const)
    test(`frees what a gateway cancelled while Redis was frozen that has ended by ${end} before Redis was back`, async (t) => {
      const { service, fleet, site, post } = await startAlone(t, `left-${end}`, 2)
      const rare = async (): Promise<Posted> =>
        (await post({ category: 'rare', recipient: { id: 'ada' } })).json<Posted>()
      const sendAtOf = async ({ notificationId }: Posted): Promise<number> => {
        const shown = await site.call('GET', `/api/v1/notifications/${notificationId}`, undefined, tenant)
        return Date.parse(shown.json<{ readonly sendAt: string }>().sendAt)
      }
      const [, cancelled, behind] = [await rare(), await rare(), await rare()]
      const [cancelledAt, behindAt] = [await sendAtOf(cancelled), await sendAtOf(behind)]
      process.kill(service.pid, 'SIGSTOP')
      try {
        const other = fleet.sites[1]!
        const path = `/api/v1/notifications/${cancelled.notificationId}`
        const deleted = await other.call('DELETE', path, undefined, tenant)
        assert.equal(deleted.status, 204, deleted.text)
        await other[end]()
      } finally {
        process.kill(service.pid, 'SIGCONT')
      }
      for (const until = performance.now() + 60_000; performance.now() < until; await sleep(200))
        if ((await sendAtOf(behind)) < behindAt) break
      // Up to the place of the cancelled one, or to the end of the window behind the one that has left.
      assert.ok((await sendAtOf(behind)) <= cancelledAt + 10_000, `at ${await sendAtOf(behind)}`)
    })
})

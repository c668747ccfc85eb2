/** A gateway whose Redis goes away and comes back: readiness, metrics and the log say so, and accepting is refused meanwhile. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import type { Site } from '../child.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { startFleet } from './fleet.ts'

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

describe('a gateway whose Redis is away', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('is not ready, answers 503 STATE_UNAVAILABLE to tenants with limits, and goes on when it is back', async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-away-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    const service = await startRedis({ folder })
    const { url } = service
    const port = Number(url.split(':').at(-1))
    const options = { name: 'away', redis: url, count: 1, tenants: { limited: { rate: '100/min' } } }
    const fleet = await startFleet(t, { ...options, config: { log: { level: 'info' } } })
    const [site] = fleet.sites
    assert.equal((await fleet.post(0, { tenant: 'limited' })).status, 202)
    assert.match((await site!.call('GET', '/metrics')).text, /^sluice_state_up 1$/m)

    await service.stop()
    const problem = await readyWith(site!, 503)
    assert.equal(problem.code, 'STATE_UNAVAILABLE')
    assert.match(problem.degraded![0]!, /^state: Redis at 127\.0\.0\.1:\d+ could not be asked/)
    const refused = await fleet.post(0, { tenant: 'limited' })
    assert.equal(refused.status, 503)
    assert.equal(refused.json<Readiness>().code, 'STATE_UNAVAILABLE')
    assert.equal(refused.headers['retry-after'], '1')
    // The mark of a request in progress is a hint: only the limits are needed.
    const metrics = (await site!.call('GET', '/metrics')).text
    assert.match(metrics, /^sluice_state_up 0$/m)
    assert.match(metrics, /^sluice_state_unanswered_total [1-9]/m)
    assert.match(site!.log(), /"event":"gateway\.state_unavailable"/)
    assert.ok(!site!.log().includes('"event":"gateway.error"'), 'one line tells it')

    const again = await startRedis({ folder, port })
    t.after(() => again.stop())
    assert.equal((await readyWith(site!, 200)).status, 'ready')
    assert.equal((await fleet.post(0, { tenant: 'limited' })).status, 202)
    assert.match(site!.log(), /"event":"gateway\.state_available"/)
  })
})

/**
 * Two gateways over one record: complaints about what both delivered pause a category at both, also where the one that
 * decides is killed, and nothing else. With SLUICE_DELIVERED=2000 it is so many, under the default policy with a window of
 * two and a half minutes, at whose end both go on.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import type { Site } from '../child.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { byDefault, policyOf } from './complaints.ts'
import { callsOfTenant, inParallel, startFleet } from './fleet.ts'

interface Guarded {
  readonly stage: string
  readonly delivered: number
  readonly complained: number
  readonly since: string
}

const count = Number(process.env.SLUICE_DELIVERED ?? 200)
const complaints = Math.ceil(count * 0.015)
const isLong = count >= 1_000
// A file of tests that has not ended after five minutes is stopped.
const windowMs = isLong ? 150_000 : 3_600_000
const rules = { ...byDefault, minimumDelivered: Math.min(1_000, count / 2), window: `${windowMs / 1_000}s` }
const tenant = 'acme'
interface Accepted {
  readonly notificationId: string
  readonly status: string
  readonly decision: { readonly reason?: string }
}

const headers = { 'x-tenant-id': tenant }

/** Asks until the answer is the expected one. Two gateways that start beside others count some seconds later. */
async function eventually<T>(ask: () => Promise<T>, expected: T, withinMs = 60_000): Promise<void> {
  let last: T | undefined
  for (const until = performance.now() + withinMs; performance.now() < until; await sleep(200)) {
    last = await ask()
    if (JSON.stringify(last) === JSON.stringify(expected)) return
  }
  assert.deepEqual(last, expected)
}

async function guarded(site: Site): Promise<readonly Guarded[]> {
  const answer = await site.call('GET', '/api/v1/overview')
  assert.equal(answer.status, 200, answer.text)
  return answer.json<{ readonly complaints: readonly Guarded[] }>().complaints
}

const countsOf = async (site: Site) =>
  (await guarded(site)).map(({ stage, delivered, complained }) => [stage, delivered, complained])

describe('the complaint guard of two gateways', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('pauses marketing at both, through kills, and nothing else', async (t) => {
    const fleet = await startFleet(t, { name: 'complaints', policy: policyOf(rules) })
    const [a, b] = fleet.sites as readonly [Site, Site]
    const body = { category: 'marketing' }
    const ids = await inParallel(count, 50, async (n) => {
      const answer = await fleet.post(n % 2, { tenant, body })
      assert.equal(answer.status, 202, answer.text)
      return answer.json<{ readonly notificationId: string }>().notificationId
    })
    assert.equal((await callsOfTenant(fleet, tenant, count, 60_000)).length, count)
    const report = async (site: Site, from: number, to: number): Promise<void> => {
      const events = ids.slice(from, to).map((notificationId) => ({
        ...{ type: 'complaint', notificationId, at: new Date(startedAt).toISOString() },
      }))
      assert.equal((await site.call('POST', '/api/v1/feedback', events, headers)).status, 202)
    }
    const startedAt = Date.now()
    const half = Math.floor(complaints / 2)
    await report(a, 0, half)
    await report(b, half, complaints)
    // The same complaints again, at the other one, count once.
    await report(b, 0, half)
    const paused = [['paused', count, complaints]]
    await eventually(() => Promise.all([a, b].map(countsOf)), [paused, paused])
    const since = (await guarded(a))[0]?.since
    assert.equal((await guarded(b))[0]?.since, since)
    const waiting = await Promise.all([0, 1].map((at) => fleet.post(at, { tenant, body })))
    for (const answer of waiting) {
      const { status, decision } = answer.json<Accepted>()
      assert.deepEqual([status, decision.reason], ['scheduled', 'complaint_guard'], answer.text)
    }
    const waitingIds = waiting.map((answer) => answer.json<Accepted>().notificationId)
    await fleet.post(1, { tenant, body: { category: 'security' } })
    const others = await callsOfTenant(fleet, tenant, count + 1, 10_000)
    assert.equal(others.length, count + 1)
    // One of them decides: each is killed once.
    await a.kill()
    await a.start()
    assert.equal((await countsOf(a))[0]?.[0], 'paused', `${Date.now() - startedAt} ms later`)
    await b.kill()
    await sleep(2_000)
    assert.equal((await countsOf(a))[0]?.[0], 'paused')
    assert.equal((await callsOfTenant(fleet, tenant, count + 1, 0)).length, count + 1)
    if (!isLong) return
    const calls = await callsOfTenant(fleet, tenant, count + 3, windowMs + 60_000)
    const left = calls.slice(count + 1)
    assert.deepEqual(left.map(({ id }) => id).sort(), waitingIds.toSorted())
    assert.ok(Math.min(...left.map(({ at }) => at)) >= startedAt + windowMs)
    await eventually(() => countsOf(a), [])
  })
})

/** Two gateways over one record: what waits is told by each of them as it is on record, whoever accepted it. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import type { Site } from '../child.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { startFleet } from './fleet.ts'

interface Group {
  readonly key: string
  readonly count: number
}

interface Overview {
  readonly waiting: { readonly byReason: Readonly<Record<string, number>> }
}

/** Asks a gateway for all that waits: its backlog by tenant, and the reasons of the overview. */
async function told(site: Site): Promise<readonly [Readonly<Record<string, number>>, object]> {
  const backlog = await site.call('GET', '/api/v1/backlog?by=tenant')
  const overview = await site.call('GET', '/api/v1/overview')
  assert.deepEqual([backlog.status, overview.status], [200, 200], backlog.text)
  const { groups } = backlog.json<{ readonly groups: readonly Group[] }>()
  return [
    Object.fromEntries(groups.map(({ key, count }) => [key, count])),
    overview.json<Overview>().waiting.byReason,
  ]
}

async function tells(site: Site, expected: readonly unknown[]): Promise<void> {
  let last: unknown
  for (const until = performance.now() + 10_000; performance.now() < until; await sleep(200)) {
    last = await told(site)
    if (JSON.stringify(last) === JSON.stringify(expected)) return
  }
  assert.deepEqual(last, expected)
}

describe('the backlog of two gateways', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('is what is on record, at each of them and after the death of one', async (t) => {
    const { sites, post } = await startFleet(t, { name: 'backlog' })
    const [a, b] = sites as readonly [Site, Site]
    const body = { sendAt: new Date(Date.now() + 3_600_000).toISOString() }
    const ids: string[] = []
    for (const [at, tenant] of [
      [0, 'acme'],
      [1, 'acme'],
      [1, 'acme'],
      [1, 'beta'],
    ] as const) {
      const answer = await post(at, { tenant, body })
      assert.equal(answer.status, 202)
      ids.push(answer.json<{ readonly notificationId: string }>().notificationId)
    }
    for (const site of [a, b]) await tells(site, [{ acme: 3, beta: 1 }, { send_at: 4 }])
    const headers = { 'x-tenant-id': 'acme' }
    assert.equal((await b.call('DELETE', `/api/v1/notifications/${ids[0]}`, undefined, headers)).status, 204)
    for (const site of [a, b]) await tells(site, [{ acme: 2, beta: 1 }, { send_at: 3 }])
    await a.kill()
    await tells(b, [{ acme: 2, beta: 1 }, { send_at: 3 }])
    await a.start()
    await tells(a, [{ acme: 2, beta: 1 }, { send_at: 3 }])
    const metrics = await a.call('GET', '/metrics')
    assert.match(metrics.text, /^sluice_waiting\{[^}]*reason="send_at"[^}]*\} 3$/m)
  })
})

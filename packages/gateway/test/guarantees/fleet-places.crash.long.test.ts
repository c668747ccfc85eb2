/** Two gateways over one record: what one of them was to promote in a tenant's queue leaves in time when it is killed. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { needs } from '../../../../scripts/services/needs.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { callsOfTenant, startFleet } from './fleet.ts'

const second = 1_000

after(dropSchemas)

test(
  'what moved up leaves at its new place when the gateway is killed that moved it',
  needs('postgres', 'redis'),
  async (t) => {
    const fleet = await startFleet(t, {
      name: 'places',
      tenants: { queued: { rate: '1/20s', modules: 'unlimited' } },
    })
    const ids: string[] = []
    for (let index = 0; index < 3; index += 1) {
      const answer = await fleet.post(0, { tenant: 'queued' })
      assert.equal(answer.status, index === 0 ? 202 : 429, answer.text)
      ids.push(answer.json<{ notificationId: string }>().notificationId)
    }
    const headers = { 'x-tenant-id': 'queued' }
    const cancelled = await fleet.sites[1]!.call(
      'DELETE',
      `/api/v1/notifications/${ids[1]}`,
      undefined,
      headers,
    )
    assert.ok(cancelled.status < 300, cancelled.text)
    await fleet.sites[1]!.kill()
    const calls = await callsOfTenant(fleet, 'queued', 2, 50 * second)
    assert.deepEqual(
      calls.map(({ id }) => id),
      [ids[0], ids[2]],
    )
    const between = calls[1]!.at - calls[0]!.at
    assert.ok(between < 25 * second, `it left ${between} ms behind the first one`)
  },
)

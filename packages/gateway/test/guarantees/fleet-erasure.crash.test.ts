/** A gateway that is killed while it erases a recipient: the other one completes it, and keeps what was saved meanwhile. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import type { Site } from '../child.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { callsOfTenant, startFleet } from './fleet.ts'

const tenant = 'acme'
const headers = { 'x-tenant-id': tenant }

interface Listed {
  readonly items: readonly { readonly recipient: string; readonly status: string }[]
}

describe('an erasure whose gateway is killed', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('is completed by the other one, which keeps what was saved of a recipient who came back', async (t) => {
    const fleet = await startFleet(t, { name: 'erasure' })
    const [a, b] = fleet.sites as readonly [Site, Site]
    const listed = async (query: string) =>
      (await b.call('GET', `/api/v1/notifications?${query}`, undefined, headers)).json<Listed>().items
    await fleet.sink.rules([{ do: 'hang' }])
    const body = { recipient: { id: 'eve' } }
    assert.equal((await fleet.post(0, { tenant, body })).status, 202)
    // The erasure waits for the end of this call.
    assert.equal((await callsOfTenant(fleet, tenant, 1, 10_000)).length, 1)
    const later = { ...body, sendAt: new Date(Date.now() + 3_600_000).toISOString() }
    assert.equal((await fleet.post(0, { tenant, body: later })).status, 202)
    const erased = a.call('DELETE', '/api/v1/recipients/eve', undefined, headers).catch(() => undefined)
    while ((await listed('recipient=eve&status=cancelled')).length === 0) await sleep(50)
    await a.kill()
    await erased
    const back = { timeZone: 'Europe/Rome' }
    const saved = await b.call('PUT', '/api/v1/recipients/eve', back, headers)
    assert.ok(saved.status < 300, saved.text)
    assert.notDeepEqual(await listed('recipient=eve'), [], 'the erasure is not complete')
    await fleet.sink.rules([])
    for (const until = performance.now() + 60_000; performance.now() < until; await sleep(200))
      if ((await listed('recipient=eve')).length === 0) break
    assert.deepEqual(await listed('recipient=eve'), [])
    const rows = await listed('limit=9')
    assert.deepEqual(
      rows.map(({ recipient }) => recipient.startsWith('erased:')),
      [true, true],
    )
    const kept = await b.call('GET', '/api/v1/recipients/eve', undefined, headers)
    assert.equal(kept.json<{ readonly timeZone?: string }>().timeZone, back.timeZone, kept.text)
  })
})

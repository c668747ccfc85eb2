/**
 * Two gateways whose Redis loses everything while they accept: the limits of tenants and their queues hold all the same.
 * `SLUICE_SECONDS=12` loses it for longer than the short form of the test run.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import { dropSchemas, schemaUrl } from '../store/postgres/database.ts'
import { inParallel, startFleet } from './fleet.ts'
import { overfull } from './windows.ts'

const seconds = Number(process.env.SLUICE_SECONDS ?? 4)
const queueMax = 40

describe('two gateways whose Redis loses everything', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('accept no more than the rate of a tenant in any window, and no more than its queue holds', async (t) => {
    const service = await startRedis()
    t.after(() => service.stop())
    const admin = new Redis(service.url)
    t.after(() => admin.disconnect())
    const rate = { max: 40, windowMs: 2_000 }
    const fleet = await startFleet(t, {
      name: 'flush',
      redis: service.url,
      tenants: { limited: { rate: '40/2s', queue: 10_000 }, bounded: { rate: '1/min', queue: queueMax } },
    })
    const endsAt = performance.now() + seconds * 1_000
    let flushes = 0
    const flushing = (async () => {
      for (; performance.now() < endsAt; await sleep(500)) {
        await admin.flushall()
        flushes += 1
      }
    })()
    let refused = 0
    const accepting = inParallel(8, 8, async (n) => {
      for (let k = 0; performance.now() < endsAt; k += 1) {
        const answer = await fleet.post((n + k) % 2, { tenant: 'limited' })
        if (answer.status === 503) refused += 1
        else assert.ok(answer.status === 202 || answer.status === 429, answer.text)
        await fleet.post((n + k) % 2, { tenant: 'bounded' })
        await sleep(20)
      }
    })
    await Promise.all([accepting, flushing])
    // On a busy machine the time may not have sufficed to fill the queue, and a gateway knows a second later at most that a
    // place is free which another one has given back.
    for (let refusedFor = 0, k = 0; refusedFor < 30 && k < 400; k += 1) {
      const { status } = await fleet.post(k % 2, { tenant: 'bounded' })
      refusedFor = status === 429 ? refusedFor + 1 : 0
      if (refusedFor > 0) await sleep(50)
    }
    // The instants that the record says: a notification counts at its pass, or at its turn.
    const client = new pg.Client(schemaUrl('flush').replace(/[?].*/, ''))
    await client.connect()
    const schema = new URL(schemaUrl('flush')).searchParams.get('schema')!
    await client.query(`SET search_path = ${schema}`)
    const { rows } = await client.query<{ at: string; tenant: string; waits: boolean; waited: boolean }>(
      `SELECT n.tenant, l.kind IS NOT DISTINCT FROM 3 AS waits, coalesce(l.turned_at, o.turned_at, n.created_at) AS at,
          coalesce(l.turned_at, o.turned_at) IS NOT NULL AS waited
        FROM notification n LEFT JOIN live l USING (id) LEFT JOIN outcome o USING (id)`,
    )
    await client.end()
    const passed = rows
      .filter(({ tenant, waits }) => tenant === 'limited' && !waits)
      .map(({ at, waited }) => ({ at: Number(at), waited }))
      .sort((a, b) => a.at - b.at)
    const passes = passed.map(({ at }) => at)
    const queued = rows.filter(({ tenant, waits }) => tenant === 'bounded' && waits).length
    assert.ok(passes.length > 8 * seconds, `${passes.length} have passed`)
    const over = overfull(passes, rate)
    assert.equal(
      over,
      0,
      over === 0 ? '' : passed.map(({ at, waited }) => `${at}${waited ? 'w' : ''}`).join(' '),
    )
    assert.equal(queued, queueMax)
    t.diagnostic(`${flushes} FLUSHALL, ${passes.length} passed, ${refused} refused`)
  })
})

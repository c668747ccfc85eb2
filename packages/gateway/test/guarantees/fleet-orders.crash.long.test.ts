/** Two gateways over one record: what one of them has answered the other obeys, and what a killed one held is sent. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { callsOf, callsOfTenant, inParallel, startFleet, type TestFleet } from './fleet.ts'

const people = 60

describe('two gateways over one record', needs('postgres', 'redis'), () => {
  const ends: (() => unknown)[] = []
  let fleet: TestFleet
  let redis: Redis
  before(async () => {
    // One of its own: its connections are cut.
    const service = await startRedis()
    ends.push(() => service.stop())
    redis = new Redis(service.url)
    ends.push(() => redis.disconnect())
    const options = { name: 'orders', redis: service.url }
    fleet = await startFleet({ after: (end) => ends.push(end as () => unknown) }, options)
  })
  after(async () => {
    for (const end of ends.toReversed()) await end()
    await dropSchemas()
  })

  test('make no call for a recipient after an opt-out that the other one has answered', async () => {
    const obeyedFrom = new Map<string, number>()
    const isOver = { all: false }
    const posting = inParallel(8, 8, async (n) => {
      for (let k = 0; !isOver.all; k += 1)
        await fleet.post((n + k) % 2, {
          tenant: 'opting',
          body: {
            recipient: { id: `p${k % people}` },
            category: 'marketing',
            content: { text: `${n} ${k}` },
          },
        })
    })
    await callsOfTenant(fleet, 'opting', people + 1, 15_000)
    await inParallel(people, 4, async (n) => {
      const answer = await fleet.sites[n % 2]!.call(
        'PATCH',
        `/api/v1/recipients/p${n}`,
        { optOuts: [{ category: 'marketing' }] },
        { 'x-tenant-id': 'opting' },
      )
      assert.equal(answer.status, 200, answer.text)
      obeyedFrom.set(`p${n}`, performance.timeOrigin + performance.now())
    })
    await sleep(1_000)
    isOver.all = true
    await posting
    await sleep(500)
    const calls = (await callsOf(fleet)).filter(({ tenant }) => tenant === 'opting')
    assert.ok(calls.length > people, `${calls.length} calls before`)
    const late = calls.filter(({ at, recipient }) => at > obeyedFrom.get(recipient)!)
    assert.deepEqual(late, [])
  })

  test('make no call that a hold stops which the other one has answered', async () => {
    const isOver = { all: false }
    const posting = inParallel(8, 8, async (n) => {
      for (let k = 0; !isOver.all; k += 1) await fleet.post((n + k) % 2, { tenant: 'held' })
    })
    await callsOfTenant(fleet, 'held', 20, 15_000)
    const stopped: { readonly path: string; readonly from: number; readonly to: number }[] = []
    for (let turn = 0; turn < 8; turn += 1) {
      const site = fleet.sites[turn % 2]!
      const of = turn % 4 < 2 ? { path: '/holds/all' } : { path: '/pools/webhook/main/hold' }
      const path = `/api/v1${of.path}`
      const until = new Date(Date.now() + 60_000).toISOString()
      // No process hears a hint of it.
      const cutting = setInterval(() => void redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub'), 5)
      const put = await site.call('PUT', path, { until, reason: 'test' })
      clearInterval(cutting)
      const from = performance.timeOrigin + performance.now()
      assert.equal(put.status, 200, put.text)
      await sleep(150)
      const to = performance.timeOrigin + performance.now()
      const ended = await site.call('DELETE', path)
      assert.equal(ended.status, 204, ended.text)
      stopped.push({ path, from, to })
      await sleep(200)
    }
    isOver.all = true
    await posting
    const calls = (await callsOf(fleet)).filter(({ tenant }) => tenant === 'held')
    const late = stopped.map(({ path, from, to }) => [
      path,
      ...calls.filter(({ at }) => at > from && at < to).map(({ at }) => Math.round(at - from)),
    ])
    assert.deepEqual(
      late,
      stopped.map(({ path }) => [path]),
    )
    // They go on behind the holds.
    const before = calls.length
    assert.ok((await callsOfTenant(fleet, 'held', before + 1, 15_000)).length > before)
  })

  test('make no call for what the other one has cancelled', async () => {
    const dueAt = Date.now() + 4_000
    const sendAt = new Date(dueAt).toISOString()
    const posted = await inParallel(80, 20, async (n) => {
      const answer = await fleet.post(n % 2, { tenant: 'cancelling', body: { sendAt } })
      return answer.json<{ notificationId: string }>().notificationId
    })
    // Both hold theirs in memory from two seconds before they are due.
    await sleep(Math.max(0, dueAt - 1_400 - Date.now()))
    const cancelled = new Set<string>()
    await inParallel(80, 20, async (n) => {
      const path = `/api/v1/notifications/${posted[n]}`
      const { status } = await fleet.sites[(n + 1) % 2]!.call('DELETE', path, undefined, {
        'x-tenant-id': 'cancelling',
      })
      assert.ok(status === 204 || status === 409, `${status}`)
      if (status === 204) cancelled.add(posted[n]!)
    })
    assert.ok(cancelled.size > 0)
    await callsOfTenant(fleet, 'cancelling', 80 - cancelled.size, 30_000)
    // A call for what is cancelled would be made with the others, or a little later.
    await sleep(2_000)
    const calls = (await callsOf(fleet)).filter(({ tenant }) => tenant === 'cancelling')
    assert.deepEqual(
      calls.filter(({ id }) => cancelled.has(id)),
      [],
    )
    assert.equal(new Set(calls.map(({ id }) => id)).size, 80 - cancelled.size)
  })

  test('send what a killed one had accepted, each once unless it was at the provider', async () => {
    const [killed] = fleet.sites
    const sendAt = new Date(Date.now() + 2_000).toISOString()
    const accepted = new Set<string>()
    const posting = inParallel(400, 40, async (n) => {
      const body = n % 2 === 0 ? { sendAt } : {}
      const answer = await fleet.post(0, { tenant: 'killed', body }).catch(() => undefined)
      if (answer?.status === 202) accepted.add(answer.json<{ notificationId: string }>().notificationId)
    })
    for (const from = performance.now(); performance.now() - from < 10_000; await sleep(20))
      if (performance.now() - from > 400 && accepted.size > 20) break
    await killed!.kill()
    const killedAt = performance.now()
    await posting
    assert.ok(accepted.size > 20, `${accepted.size} accepted`)
    let calls = await callsOf(fleet)
    for (; performance.now() - killedAt < 30_000; await sleep(200)) {
      calls = (await callsOf(fleet)).filter(({ tenant }) => tenant === 'killed')
      const sent = new Set(calls.map(({ id }) => id))
      if ([...accepted].every((id) => sent.has(id))) break
    }
    const sent = new Set(calls.map(({ id }) => id))
    assert.deepEqual(
      [...accepted].filter((id) => !sent.has(id)),
      [],
      'nothing is lost',
    )
    const doubles = calls.length - sent.size
    assert.ok(doubles <= 200, `${doubles} doubles of at most as many as may be under way`)
    const metrics = async (): Promise<string> => (await fleet.sites[1]!.call('GET', '/metrics')).text
    const isAlone = /^sluice_fleet_gateways 1$/m
    // The other one counts until the look behind that which has found it dead.
    for (const until = performance.now() + 20_000; performance.now() < until; await sleep(200))
      if (isAlone.test(await metrics())) break
    const text = await metrics()
    assert.match(text, isAlone)
    assert.match(text, /^sluice_fleet_taken_over_total\{state="waiting"\} [1-9]/m)
    assert.match(text, /^sluice_fleet_rights_total\{outcome="given"\} [1-9]/m)
    assert.match(text, /^sluice_fleet_clock_error_seconds 0\.0/m)
    const page = readFileSync(new URL('../../../../docs/reference/metrics.md', import.meta.url), 'utf8')
    const named = (of: string): Set<string> => new Set(of.match(/sluice_fleet_\w+/g))
    assert.deepEqual(named(page), named(text))
  })
})

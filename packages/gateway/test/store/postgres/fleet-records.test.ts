/** The record from which lost limiter state is filled, and the numbers by which it is known, on a real PostgreSQL. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { someNotification } from '../../../src/conformance/store/sample.ts'
import { exerciseTenantRecords } from '../../../src/conformance/tenant-records.ts'
import type { TenantGeneration } from '../../../src/ports.ts'
import { connect, type Db } from '../../../src/store/postgres/connection.ts'
import { createTenantRecords } from '../../../src/store/postgres/fleet/tenant-records.ts'
import { addressOf, ask, dropSchemas, joinAt, schemaUrl } from './database.ts'

const clock = createSystemClock()
const conflict = (kind: string, key: string) => ({ applied: false, conflicts: [{ kind, key }] })
const tenant = 'acme'
const place = { keyspace: 'keys', masters: ['redis:6379'] }

/** Two processes on a new record. */
async function twoOn(name: string) {
  const url = schemaUrl(name)
  // Beats as in operation: nobody dies here, however busy the machine is.
  const [a, b] = [await joinAt(url, clock, { beatMs: 2_000 }), await joinAt(url, clock, { beatMs: 2_000 })]
  return {
    url,
    a,
    b,
    async close() {
      for (const { members, store } of [a, b]) {
        await members.close()
        await store.close()
      }
    },
  }
}

describe('the record of tenants on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)
  let opened = 0
  exerciseTenantRecords(async () => {
    opened += 1
    const { a, b, close } = await twoOn(`tenants${opened}`)
    const processOf = ({ store, members, records }: typeof a) => ({ store, id: members.id, records })
    return { a: processOf(a), b: processOf(b), close }
  })
})

// They mostly wait, each on engines or names of its own.
describe('the record of a fleet on PostgreSQL', { ...needs('postgres'), concurrency: 3 }, () => {
  after(dropSchemas)

  test('refuses an acceptance that was decided under an earlier generation, and no other of its group', async () => {
    const { a, b, close } = await twoOn('generations')
    const under = (state: TenantGeneration['state'], number: number, of = tenant) => [
      { tenant: of, state, number },
    ]
    const first = await b.records.nextThrottleGeneration(tenant)
    assert.ok(
      (await a.store.commit({ accept: [someNotification()], generations: under('throttle', first) })).applied,
    )
    const second = await b.records.nextThrottleGeneration(tenant)
    assert.ok(second > first)
    const [stale, fresh, others] = await Promise.all([
      a.store.commit({ accept: [someNotification()], generations: under('throttle', first) }),
      a.store.commit({ accept: [someNotification()], generations: under('throttle', second) }),
      a.store.commit({ accept: [someNotification()] }),
    ])
    assert.deepEqual(stale, conflict('generation', tenant))
    assert.ok(fresh.applied && others.applied)
    const room = await a.records.nextRoomGeneration(tenant)
    const both = [...under('throttle', second), ...under('room', room - 1)]
    assert.deepEqual(
      await a.store.commit({ accept: [someNotification()], generations: both }),
      conflict('generation', tenant),
    )
    assert.deepEqual(
      await a.store.commit({ accept: [someNotification()], generations: under('throttle', 1, 'unknown') }),
      conflict('generation', 'unknown'),
    )
    await close()
  })

  test('numbers each life of a server once for all processes, and waits until older rights have ended', async () => {
    const { url, a, b, close } = await twoOn('servers')
    const life = { node: 'redis:6379', runId: 'r1', replicationId: 'p1', place }
    const begunAt = performance.now()
    const numbers = await Promise.all([a, b, a].map(({ registrations }) => registrations.register(life)))
    assert.ok(performance.now() - begunAt >= 245, 'a fill may begin while calls under older rights are made')
    assert.equal(new Set(numbers).size, 1)
    const againAt = performance.now()
    assert.equal(await b.registrations.register(life), numbers[0])
    assert.ok(performance.now() - againAt < 200, 'a known life needs no pause')
    const promoted = await a.registrations.register({ ...life, replicationId: 'p2' })
    const back = await b.registrations.register(life)
    assert.ok(promoted > numbers[0]! && back > promoted)
    const other = await a.registrations.register({ ...life, node: 'redis:6380', runId: 'r2' })
    assert.equal(new Set([...numbers, promoted, back, other]).size, 4)
    assert.equal((await ask(url, 'SELECT FROM limiter_server')).length, 2)
    // A right to send names the newest lives, also where it is refused: no other question is needed for that.
    const { servers, refused } = await b.store.begin([{ notification: someNotification() }])
    assert.equal(refused.size, 1)
    assert.deepEqual(
      servers,
      new Map([
        ['redis:6379', back],
        ['redis:6380', other],
      ]),
    )
    await close()
  })

  test('gives no number again in a schema that was made anew, or restored from a backup', async () => {
    const life = { node: 'redis:6379', runId: 'r1', replicationId: 'p1', place }
    const [one, other] = [await twoOn('one_schema'), await twoOn('other_schema')]
    const first = await one.a.registrations.register(life)
    assert.notEqual(await other.a.registrations.register(life), first)
    const second = await one.a.registrations.register({ ...life, runId: 'r2' })
    await ask(one.url, `UPDATE limiter_number SET newest = ${first}`)
    const again = await one.a.registrations.register({ ...life, runId: 'r3' })
    assert.ok(again > first && again !== second)
    await one.close()
    await other.close()
  })

  test('gives a server one number under all of its names, and makes those unknown that led to the one before', async () => {
    const { url, a, b, close } = await twoOn('names')
    const of = (node: string, runId = 'r1') => ({ node, runId, replicationId: 'p1', place })
    const first = await a.registrations.register(of('redis:1'))
    assert.equal(await b.registrations.register(of('name:1')), first)
    assert.equal(await a.registrations.register(of('redis:1')), first)
    // Another server has taken its place.
    const promoted = await a.registrations.register(of('redis:1', 'r2'))
    const heard = (await b.registrations.newest()).get('name:1')!
    assert.ok(heard > first && promoted > heard)
    assert.equal(await b.registrations.register(of('name:1', 'r2')), promoted)
    // A name that still leads to the one before makes it the newest, and the other name unknown.
    const back = await b.registrations.register(of('name:1', 'r1'))
    assert.ok(back > promoted && (await a.registrations.newest()).get('redis:1')! > promoted)
    // A name with a greater number than that of the server gets no lesser one.
    const third = await a.registrations.register(of('redis:1', 'r3'))
    assert.ok(third > back)
    const again = await a.registrations.register(of('redis:1', 'r1'))
    assert.ok(again > third)
    assert.equal(await b.registrations.register(of('name:1', 'r1')), again)
    await ask(url, 'UPDATE limiter_server SET is_settled = false')
    await a.registrations.register(of('redis:1', 'r1'))
    assert.deepEqual(await ask(url, 'SELECT FROM limiter_server WHERE NOT is_settled'), [])
    await close()
  })

  test('makes all servers unknown, until they are registered again', async () => {
    const { a, b, close } = await twoOn('renumbered')
    const life = { node: 'redis:6379', runId: 'r1', replicationId: 'p1', place }
    const first = await a.registrations.register(life)
    await b.registrations.renumber()
    const newest = (await a.registrations.newest()).get(life.node)!
    assert.ok(newest > first)
    await a.registrations.renumber()
    assert.equal(
      (await a.registrations.newest()).get(life.node),
      newest,
      'nothing was filled under that number',
    )
    assert.ok((await a.registrations.register(life)) > newest)
    await close()
  })

  test('lets one process keep the limits when all have pledged, and registers no server meanwhile', async () => {
    const { url, a, b, close } = await twoOn('keeping')
    const life = { node: 'redis:6379', runId: 'r1', replicationId: 'p1', place }
    const first = await a.registrations.register(life)
    assert.equal(await b.registrations.register(life), first)
    // One that is cut off alone keeps nothing: the other one still asks the server.
    assert.deepEqual(await a.keeping.standIn(), { number: undefined, keeper: undefined, isReachable: true })
    const { number, ...kept } = await b.keeping.standIn()
    assert.deepEqual(kept, { keeper: b.members.id, isReachable: false })
    assert.ok(number! > first)
    assert.equal((await b.keeping.standIn()).number, number, 'it keeps them under one number')
    assert.equal((await a.keeping.standIn()).keeper, b.members.id)
    // One that starts has registered no server: it does not end what is kept, and does not reach a server either.
    const c = await joinAt(url, clock, { beatMs: 2_000 })
    assert.equal((await b.keeping.standIn()).isReachable, false)
    await c.members.close()
    await c.store.close()
    const { servers } = await a.store.begin([{ notification: someNotification() }])
    assert.deepEqual(servers, new Map([[life.node, number]]), 'a right names the number of the keeper')
    await assert.rejects(async () => a.registrations.register(life), { code: 'STATE_UNAVAILABLE' })
    assert.equal((await b.keeping.standIn()).isReachable, true, 'the keeper hears who reaches a server')
    await b.keeping.stepDown()
    const again = await a.registrations.register(life)
    assert.ok(again > number!, 'what the server has counted before is unknown')
    assert.equal((await b.keeping.standIn()).number, undefined)
    await close()
  })

  test('hands over what is shared or critical and has not begun, and nothing else', async () => {
    const { a, b, close } = await twoOn('handed')
    const until = clock.now() + 60_000
    await a.store.claimDue(until, 10)
    const held = [
      someNotification({ category: 'security' }),
      someNotification({ category: 'security' }),
      someNotification({ category: 'social' }),
      someNotification({ category: 'social', priority: 'critical' }),
    ]
    assert.ok((await a.store.commit({ accept: held })).applied)
    const [begun, shared, other, critical] = held
    assert.equal((await a.store.begin([{ notification: begun! }])).refused.size, 0)
    assert.deepEqual(await b.store.claimDue(until, 10), [], 'all of them are held')
    const given = await a.keeping.handOver({ categories: ['security'], areListed: true })
    assert.deepEqual([...given].sort(), [shared!.id, critical!.id].sort())
    const claimed = await b.store.claimDue(until, 10)
    assert.deepEqual(claimed.map(({ id }) => id).sort(), [shared!.id, critical!.id].sort())
    assert.deepEqual(await a.keeping.handOver({ categories: ['social'], areListed: false }), [])
    assert.deepEqual(await a.keeping.handOver({ categories: [], areListed: false }), [other!.id])
    await close()
  })

  test('reads the acceptances of a tenant with very many in statements of a bounded size, in their order', async (t) => {
    const { url, close } = await twoOn('many')
    t.after(close)
    const connection = await connect(addressOf(url))
    t.after(() => connection.close())
    const [at, count] = [clock.now(), 25_000]
    await ask(
      url,
      `INSERT INTO notification SELECT 'n' || n, n, '${tenant}', 'r', 'product', NULL, NULL, ${at} + n,
            '{"module":"shop","priority":"normal"}', '{"decision":{},"timeline":[{},{}]}' FROM generate_series(1, ${count}) n;
        INSERT INTO outcome SELECT 'n' || n, '${tenant}', 'email', 6, ${at}, ${at}, 1 FROM generate_series(1, ${count}) n`,
    )
    let most = 0
    const db: Db = {
      async query<Row extends object>(text: string, values?: readonly unknown[]) {
        const rows = await connection.query<Row>(text, values)
        if (text.includes('body')) most = Math.max(most, rows.length)
        return rows
      },
    }
    const { counted, waiting } = await createTenantRecords(db).entries(tenant, at)
    assert.deepEqual(
      counted.map((entry) => entry.at - at),
      Array.from({ length: count }, (_, n) => n + 1),
    )
    assert.deepEqual(waiting, [])
    assert.ok(most <= 10_000, `one statement reads ${most}`)
  })
})

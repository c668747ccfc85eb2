/** Two gateways over one record and one Redis: the limits of tenants, their queues, and a request hold over both. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { needs } from '../../../../scripts/services/needs.ts'
import type { Answer } from '../child.ts'
import { ask, dropSchemas, schemaUrl } from '../store/postgres/database.ts'
import { callsOf, callsOfTenant, inParallel, startFleet, type TestFleet } from './fleet.ts'

interface Accepted {
  readonly notificationId?: string
  readonly code?: string
}

const withStatus = (answers: readonly Answer[], ...statuses: readonly number[]) =>
  answers.filter(({ status }) => statuses.includes(status))

describe('two gateways with one Redis', needs('postgres', 'redis'), () => {
  const ends: (() => unknown)[] = []
  let fleet: TestFleet
  before(async () => {
    const tenants = {
      limited: { rate: '100/min' },
      bounded: { rate: '10/min', queue: 300 },
      overtaken: { rate: '100/min' },
      restored: { rate: '5/min' },
      lastPlaces: { queue: 150 },
      curious: { reads: '20/min', writes: '10/min' },
    }
    fleet = await startFleet({ after: (end) => ends.push(end as () => unknown) }, { name: 'limits', tenants })
  })
  after(async () => {
    for (const end of ends) await end()
    await dropSchemas()
  })

  test('let pass exactly the rate of a tenant, whichever of them is asked', async () => {
    const answers = await inParallel(260, 40, (n) => fleet.post(n % 2, { tenant: 'limited' }))
    const wrong = answers.find(({ status }) => status >= 500)?.text ?? ''
    assert.deepEqual([withStatus(answers, 202).length, withStatus(answers, 429).length], [100, 160], wrong)
  })

  test('answer as many lists and make as many changes as a tenant may have, whichever of them is asked', async () => {
    const tenant = { 'x-tenant-id': 'curious' }
    const list = (n: number) => fleet.sites[n % 2]!.call('GET', '/api/v1/notifications', undefined, tenant)
    const change = (n: number) =>
      fleet.sites[n % 2]!.call('PUT', `/api/v1/recipients/${n}`, { email: 'ada@example.com' }, tenant)
    const lists = await inParallel(50, 10, list)
    const changes = await inParallel(30, 10, change)
    assert.deepEqual([withStatus(lists, 200).length, withStatus(lists, 429).length], [20, 30])
    assert.deepEqual([withStatus(changes, 200).length, withStatus(changes, 429).length], [10, 20])
    for (const answer of withStatus([...lists, ...changes], 429)) {
      assert.equal(answer.json<Accepted>().code, 'REQUEST_LIMIT_EXCEEDED')
      assert.ok(Number(answer.headers['retry-after']) > 30, String(answer.headers['retry-after']))
    }
    for (const { status } of await inParallel(4, 4, (n) =>
      fleet.sites[n % 2]!.call('GET', '/api/v1/recipients/ada/limits', undefined, tenant),
    ))
      assert.equal(status, 200, 'a read by id is not limited')
  })

  test('fill the queue of a tenant to its bound and not beyond, and refuse no other tenant', async () => {
    // A call that is not answered counts in the queue.
    await fleet.sink.rules([{ do: 'hang' }])
    const answers = await inParallel(500, 40, (n) => fleet.post(n % 2, { tenant: 'bounded' }))
    assert.deepEqual([withStatus(answers, 202, 429).length, withStatus(answers, 503).length], [300, 200])
    for (const answer of withStatus(answers, 503)) assert.equal(answer.json<Accepted>().code, 'QUEUE_FULL')
    assert.equal((await fleet.post(0, { tenant: 'other' })).status, 202)
    await fleet.sink.rules([])
  })

  test('accept again where a process took a generation of limits and did not fill them', async () => {
    for (const at of [0, 1]) assert.equal((await fleet.post(at, { tenant: 'overtaken' })).status, 202)
    const url = schemaUrl('limits')
    const generations = () =>
      ask(url, "SELECT state, number::int FROM generation WHERE tenant = 'overtaken' ORDER BY state")
    const before = (await generations()) as { state: string; number: number }[]
    await ask(url, "SELECT next_generation('overtaken', 'throttle'), next_generation('overtaken', 'room')")
    for (const at of [1, 0, 1]) assert.equal((await fleet.post(at, { tenant: 'overtaken' })).status, 202)
    assert.deepEqual(
      await generations(),
      before.map(({ state, number }) => ({ state, number: number + 2 })),
      'each was taken once and filled once',
    )
  })

  test('accept again, and no more than the rate, where the record is older than what Redis holds', async () => {
    const postAll = (count: number) =>
      Promise.all(Array.from({ length: count }, (_, n) => fleet.post(n % 2, { tenant: 'restored' })))
    assert.equal(withStatus(await postAll(4), 202).length, 4)
    const url = schemaUrl('limits')
    const numbers = () => ask(url, 'SELECT number::float AS number FROM limiter_server')
    const [before] = await numbers()
    // As in a backup that was taken before the values were filled.
    await ask(url, "DELETE FROM generation WHERE tenant = 'restored'")
    const answers: Answer[] = []
    for (const until = Date.now() + 10_000; answers.length === 0 && Date.now() < until; await sleep(100))
      answers.push(...withStatus(await postAll(2), 202, 429))
    answers.push(...withStatus(await postAll(2), 202, 429))
    assert.ok(answers.length > 2, 'an older record refuses everything for ever')
    assert.ok((await numbers())[0]!.number > before!.number, 'the server is registered anew')
    assert.equal((await callsOfTenant(fleet, 'restored', 6, 3_000)).length, 5)
  })

  test('accept one notification for an Idempotency-Key that is used at both at once', async () => {
    const keys = Array.from({ length: 40 }, (_, n) => `key ${n}`)
    const ids = await Promise.all(
      keys.map(async (key) => {
        const body = { recipient: { id: key }, content: { subject: key, text: key } }
        const answers = await Promise.all([0, 1].map((at) => fleet.post(at, { tenant: 'once', body, key })))
        for (const { status } of answers) assert.ok(status === 202 || status === 409, `${status}`)
        return answers.flatMap((answer) => answer.json<Accepted>().notificationId ?? [])
      }),
    )
    for (const of of ids) assert.equal(new Set(of).size, 1)
    await callsOfTenant(fleet, 'once', keys.length, 15_000)
    // A second message would come now.
    await sleep(500)
    const calls = (await callsOf(fleet)).filter(({ tenant }) => tenant === 'once')
    assert.equal(calls.length, keys.length)
    assert.equal(new Set(calls.map(({ id }) => id)).size, keys.length)
  })

  test('answer a batch that both work on as the one that has taken the last places, not as full', async (t) => {
    const admin = await createClient({ url: fleet.redis }).connect()
    t.after(() => admin.destroy())
    const recipients = Array.from({ length: 101 }, (_, n) => ({ id: `last${n}` }))
    const batch = { recipients, channel: 'webhook', content: { text: 'Last places' } }
    const headers = { 'x-tenant-id': 'lastPlaces', 'idempotency-key': 'last places' }
    const post = (at: number) => fleet.sites[at]!.call('POST', '/api/v1/notifications/batch', batch, headers)
    // The first is held up in its commit, and Redis loses that it is in progress.
    const holding = ask(
      schemaUrl('limits'),
      'BEGIN; LOCK TABLE job IN SHARE MODE; SELECT pg_sleep(1); COMMIT',
    )
    await sleep(200)
    const first = post(0)
    await sleep(400)
    for (const mark of await admin.keys('limits:*{k/*')) await admin.del(mark)
    const [one, other] = await Promise.all([first, post(1)])
    await holding
    assert.equal(one.status, 202, one.text)
    assert.deepEqual([other.status, other.text], [one.status, one.text])
  })
})

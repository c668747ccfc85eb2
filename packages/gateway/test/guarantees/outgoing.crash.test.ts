/**
 * Two gateways with RabbitMQ in front of their queues, as processes over one PostgreSQL and one Redis: queues that are
 * deleted, connections that are cut, a broker that is away, a full queue. Nothing is lost, nothing is sent twice.
 * SLUICE_OUTGOING_COUNT: notifications accepted under each fault; SLUICE_OUTGOING_BOUND: the bound of the full queue;
 * SLUICE_OUTGOING_GATEWAYS: gateways; SLUICE_OUTGOING_RESTART=1: restarts a broker of its own under load.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { after, afterEach, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from 'rabbitmq-client'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRabbitmq } from '../../../../scripts/services/rabbitmq.ts'
import type { Service } from '../../../../scripts/services/service.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { type LossyProxy, startProxy } from '../store/postgres/proxy.ts'
import { inParallel, startFleet, type TestFleet } from './fleet.ts'

const count = Number(process.env.SLUICE_OUTGOING_COUNT ?? 150)
const bound = Number(process.env.SLUICE_OUTGOING_BOUND ?? 40)
const gateways = Number(process.env.SLUICE_OUTGOING_GATEWAYS ?? 2)
const restarts = process.env.SLUICE_OUTGOING_RESTART === '1'
/** Repair takes at most 30 s; the rest is for a busy machine. */
const patienceMs = 60_000
/** Characters of the log of a gateway that a failure shows. */
const logMax = 20_000

describe('RabbitMQ in front of the queues of a fleet', needs('postgres', 'redis', 'rabbitmq'), () => {
  const cleanups: (() => unknown)[] = []
  let own: Service | undefined
  let url = ''
  let proxy: LossyProxy
  let operator: Connection
  let fleet: TestFleet
  let ids: string[] = []

  before(async () => {
    if (restarts) own = await startRabbitmq({ folder: mkdtempSync(join(tmpdir(), 'sluice-rabbitmq-')) })
    url = own?.url ?? process.env.SLUICE_TEST_RABBITMQ!
    proxy = await startProxy(url)
    operator = new Connection({ url, retryLow: 100, retryHigh: 500 })
    operator.on('error', () => {})
    fleet = await startFleet(
      { after: (cleanup?: unknown) => cleanups.unshift(cleanup as () => unknown) },
      {
        name: 'outgoing',
        count: gateways,
        rate: ['400/s'],
        // A call that hangs holds its place until the tenant's queue is full; a dead letter would leave it to another.
        timeout: '120s',
        tenants: { small: { queue: bound, rate: 'unlimited', modules: 'unlimited' } },
        config: { queue: proxy.url, http: { drainMs: '5s' }, log: { level: 'warn' } },
      },
    )
  })
  after(async () => {
    for (const cleanup of cleanups) await cleanup()
    await Promise.all(['one', 'two', 'small', 'other'].map(remove))
    await operator.close()
    proxy.close()
    await own?.stop()
    if (own !== undefined) rmSync(own.folder, { recursive: true })
    await dropSchemas()
  })

  /** A failure shows how each gateway fares: one that was declared dead has ended, and says so in its log. */
  afterEach((t) => {
    // The declarations of Node do not have it yet.
    if ((t as { readonly passed?: boolean }).passed === true) return
    for (const [at, site] of fleet.sites.entries()) {
      const state = site.exit === undefined ? 'runs' : `has ended: ${JSON.stringify(site.exit)}`
      console.error(`Gateway ${at} ${state}\n${site.log().slice(-logMax)}`)
    }
  })

  const remove = async (tenant: string): Promise<void> => {
    await operator.queueDelete(`notify.outgoing.${tenant}`).catch(() => {})
  }

  /** Accepts notifications of two tenants at all gateways in turn, and runs `fault` in the middle. */
  async function accept(fault: () => unknown): Promise<void> {
    ids = []
    await inParallel(count, 20, async (n) => {
      if (n === Math.trunc(count / 2)) await fault()
      const tenant = n % 2 === 0 ? 'one' : 'two'
      const answer = await fleet.post(n % gateways, { tenant })
      assert.equal(answer.status, 202, answer.text)
      ids.push(answer.json<{ notificationId: string }>().notificationId)
    })
  }

  /** Each accepted notification was called exactly once. */
  async function allOnce(): Promise<void> {
    const end = performance.now() + patienceMs
    for (;;) {
      const calls = (await fleet.sink.dump()).requests.map(({ headers }) => String(headers['webhook-id']))
      const missing = ids.filter((id) => !calls.includes(id))
      if (missing.length === 0) {
        const twice = calls.filter((id, index) => calls.indexOf(id) !== index)
        assert.deepEqual(twice, [], 'called twice')
        return
      }
      if (performance.now() >= end)
        assert.fail(
          `${missing.length} of ${ids.length} are missing, the first is ${await fateOf(missing[0]!)}`,
        )
      await sleep(200)
    }
  }

  /** Tells the answer about a notification, with its timeline, and the metrics of the queue of each gateway. */
  async function fateOf(id: string): Promise<string> {
    const [answers, metrics] = await Promise.all([
      Promise.all(
        ['one', 'two'].map((tenant) =>
          fleet.sites[0]!.call('GET', `/api/v1/notifications/${id}`, undefined, { 'x-tenant-id': tenant }),
        ),
      ),
      Promise.all(fleet.sites.map((site) => site.call('GET', '/metrics'))),
    ])
    const queues = metrics.flatMap(({ text }, at) =>
      text
        .split('\n')
        .filter((line) => line.startsWith('sluice_queue'))
        .map((line) => `gateway ${at}: ${line}`),
    )
    return [id, ...answers.map(({ text }) => text), ...queues].join('\n')
  }

  async function metric(name: string): Promise<number> {
    const texts = await Promise.all(fleet.sites.map((site) => site.call('GET', '/metrics')))
    const values = texts.map(({ text }) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1] ?? 0))
    return values.reduce((sum, value) => sum + value, 0)
  }

  async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
    for (const end = performance.now() + patienceMs; !(await condition()); await sleep(200))
      assert.ok(performance.now() < end, `${what} does not come`)
  }

  test('sends what comes out of the queues, each once', async () => {
    // Before that a gateway sends by a queue of its own.
    await until(async () => (await metric('sluice_queue_up')) === gateways, 'the connections')
    await accept(() => {})
    await allOnce()
    await until(
      async () => (await metric('sluice_queue_taken_total')) >= count,
      'the count of what was taken',
    )
  })

  test('loses nothing when queues are deleted underneath', async () => {
    await accept(() => Promise.all([remove('one'), remove('two')]))
    await allOnce()
  })

  test('loses nothing when every connection is cut', async () => {
    await accept(proxy.cutAll)
    await allOnce()
  })

  test('sends by the queues of the gateways while the broker is away, and says so at /readyz', async () => {
    await until(async () => (await metric('sluice_queue_up')) === gateways, 'the connections')
    await accept(proxy.freeze)
    await allOnce()
    const ready = await fleet.sites[0]!.call('GET', '/readyz')
    const { degraded } = ready.json<{ degraded?: readonly string[] }>()
    assert.deepEqual([ready.status, degraded], [200, ['queue: RabbitMQ does not answer']])
    proxy.thaw()
    await until(async () => (await metric('sluice_queue_up')) === gateways, 'the connections')
  })

  if (restarts)
    test('loses nothing when the broker is restarted under load', async () => {
      const port = Number(new URL(own!.url).port)
      await accept(async () => {
        await own!.stop()
        own = await startRabbitmq({ folder: own!.folder, port })
      })
      await allOnce()
    })

  test('refuses what is beyond the bound of a tenant, at all gateways together and for this tenant only', async () => {
    await fleet.sink.rules([{ do: 'hang' }])
    const results = await inParallel(bound + 25, 50, (n) => fleet.post(n % gateways, { tenant: 'small' }))
    const accepted = results.filter(({ status }) => status === 202).length
    const refused = results.filter(({ status }) => status === 503)
    assert.equal(accepted, bound)
    assert.equal(accepted + refused.length, results.length)
    for (const answer of refused) {
      const { code, detail } = answer.json<{ code: string; detail: string }>()
      assert.equal(code, 'QUEUE_FULL')
      assert.equal(
        detail,
        'Notification queue is at capacity. Retry after existing notifications are processed.',
      )
    }
    assert.equal((await fleet.post(0, { tenant: 'other' })).status, 202)
  })
})

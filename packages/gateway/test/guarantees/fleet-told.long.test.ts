/** The gateways of a fleet tell their operators the same, also while Redis is away. */
import assert from 'node:assert/strict'
import { hostname } from 'node:os'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import type { Site } from '../child.ts'
import { dropSchemas, schemaUrl } from '../store/postgres/database.ts'
import { startProxy } from '../store/postgres/proxy.ts'
import { startFleet } from './fleet.ts'

interface Overview {
  readonly problems: readonly { readonly code: string; readonly severity: string; readonly text: string }[]
  readonly cause: { readonly side: string; readonly text: string }
}

interface Backlog {
  readonly groups: readonly {
    readonly key: string
    readonly emptyAt: string | null
    readonly emptyIs: string
  }[]
}

const overviewOf = async (site: Site) => (await site.call('GET', '/api/v1/overview')).json<Overview>()
const backlogOf = async (site: Site) => (await site.call('GET', '/api/v1/backlog')).json<Backlog>()

async function until(holds: () => Promise<boolean>, withinMs: number): Promise<void> {
  for (const end = performance.now() + withinMs; !(await holds()); await sleep(200))
    assert.ok(performance.now() < end, `not within ${withinMs} ms`)
}

/** Reads which gateways this one has declared dead. */
const linesOfTheDead = (site: Site): string =>
  [...site.log().matchAll(/"event":"gateway\.other_declared_dead".*"gateway":"([^"]+)"/g)]
    .map(([, gateway]) => gateway)
    .join()

async function waitingReports(site: Site): Promise<number> {
  const { text } = await site.call('GET', '/metrics')
  return Number(/^sluice_feedback_waiting (\d+)$/m.exec(text)?.[1])
}

describe('what gateways tell their operators', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('each names a Redis that is away as the cause, and promises no end of what waits for it', async (t) => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const { sites, post } = await startFleet(t, { name: 'told', redis: redis.url })
    for (const site of sites) assert.equal((await overviewOf(site)).cause.side, 'neither')
    await redis.stop()
    assert.equal((await post(0)).status, 202)
    for (const site of sites) {
      const named = async () =>
        (await overviewOf(site)).problems.some(({ code }) => code === 'STATE_UNAVAILABLE')
      await until(named, 10_000)
      const { problems, cause } = await overviewOf(site)
      assert.deepEqual(
        problems.map(({ code, severity }) => [code, severity]),
        [['STATE_UNAVAILABLE', 'page']],
      )
      assert.match(
        problems[0]!.text,
        /^For \d+ s the limits in Redis could not be asked, and what is due waits: .*ECONNREFUSED/,
      )
      assert.deepEqual([cause.side, cause.text], ['us', `Us: ${problems[0]!.text}`])
      const hasGroup = async () => (await backlogOf(site)).groups.length > 0
      await until(hasGroup, 10_000)
      const { groups } = await backlogOf(site)
      assert.deepEqual(
        groups.map(({ key, emptyAt, emptyIs }) => [key, emptyAt, emptyIs]),
        [['state_unavailable', null, 'never']],
      )
    }
  })

  test('what is held stays until Redis is back, though one gateway keeps the limits of the rest', async (t) => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    const policy = { version: 1, limits: [], onStateLost: { default: 'hold', security: 'share' } }
    const { sites, post } = await startFleet(t, { name: 'kept', redis: redis.url, policy })
    await redis.stop()
    const text = async (site: Site) => (await overviewOf(site)).cause.text
    for (const site of sites)
      await until(async () => / process keeps the limits of what is shared/.test(await text(site)), 15_000)
    assert.equal((await post(0)).status, 202)
    for (const site of sites) {
      await until(async () => (await backlogOf(site)).groups.length > 0, 10_000)
      const { groups } = await backlogOf(site)
      assert.deepEqual(
        groups.map(({ key, emptyAt, emptyIs }) => [key, emptyAt, emptyIs]),
        [['state_unavailable', null, 'never']],
      )
    }
  })

  test('one of the others tells in its log that a gateway was killed, and of none that was stopped', async (t) => {
    const { sites } = await startFleet(t, { name: 'gone', count: 3, config: { log: { level: 'info' } } })
    const [killed, stopped, ...others] = sites
    const { pid } = killed!
    await killed!.kill()
    await stopped!.terminate()
    const tells = () => others.map(linesOfTheDead).join('')
    await until(async () => tells() !== '', 20_000)
    await sleep(2_000)
    assert.equal(tells(), `${hostname()}:${pid}`)
  })

  test('each tells in its metrics and once in its log that PostgreSQL is away, and that it is back', async (t) => {
    const proxy = await startProxy(schemaUrl('up'))
    t.after(() => proxy.close())
    const config = { store: proxy.url, log: { level: 'info' } }
    const { sites } = await startFleet(t, { name: 'up', config })
    const tells = async (value: number) => {
      const texts = await Promise.all(sites.map(async (site) => (await site.call('GET', '/metrics')).text))
      return texts.every((text) => text.includes(`\nsluice_store_up ${value}\n`))
    }
    assert.ok(await tells(1))
    proxy.freeze()
    await until(() => tells(0), 15_000)
    const hasEvent = async (name: string): Promise<boolean> =>
      sites.every((site) => site.log().includes(`"event":"${name}"`))
    await until(() => hasEvent('store.unavailable'), 15_000)
    await sleep(3_000)
    proxy.thaw()
    await until(() => tells(1), 15_000)
    await until(() => hasEvent('store.available'), 40_000)
    for (const site of sites) {
      const [, ...meanwhile] = site.log().split(/"event":"(?:store\.unavailable|store\.available)"/)
      assert.equal(meanwhile.length, 2, 'each is told once')
      assert.doesNotMatch(meanwhile[0]!, /"event":"gateway\.error"/)
    }
  })

  test('reports that wait for their notification are counted at the one gateway that tries them', async (t) => {
    const { sites } = await startFleet(t, { name: 'reports', count: 3 })
    const report = {
      type: 'open',
      notificationId: '01KZZZZZZZZZZZZZZZZZZZZZZZ',
      at: new Date().toISOString(),
    }
    for (const [index, site] of sites.entries()) {
      const answer = await site.call('POST', '/api/v1/feedback', { ...report, detail: `of ${index}` })
      assert.equal(answer.status, 202, answer.text)
    }
    const counts = () => Promise.all(sites.map(waitingReports))
    await until(async () => (await counts()).sort().join() === '0,0,3', 15_000)
  })
})

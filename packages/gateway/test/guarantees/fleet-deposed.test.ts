/**
 * Two gateways whose Redis has been replaced, while a connection of one of them still leads to the one before: the right
 * to send names the newest, before the limits of a recipient are asked.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import type { Site } from '../child.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { startProxy } from '../store/postgres/proxy.ts'
import { callsOfTenant, startFleet } from './fleet.ts'

const policy = {
  version: 1,
  limits: [{ name: 'few', for: 'any', max: '2/1h', over: 'delay' }],
}

describe('two gateways whose Redis was replaced', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('send a recipient no more than its limit, and go on, though one is still connected to the deposed server', async (t) => {
    const [deposed, newest, last] = [await startRedis(), await startRedis(), await startRedis()]
    t.after(() => Promise.all([deposed, newest, last].map((each) => each.stop())))
    const proxy = await startProxy(deposed.url)
    t.after(proxy.close)
    const fleet = await startFleet(t, { name: 'deposed', redis: proxy.url.replace(/\/$/, ''), policy })
    // A gateway that is killed before it has settled a call leaves it to the other one, under the same id.
    const sent = async (count: number, withinMs: number) =>
      new Set((await callsOfTenant(fleet, 'acme', count, withinMs)).map(({ id }) => id)).size
    const [connected, other] = fleet.sites as readonly [Site, Site]
    const postAt = async (at: number, more = {}) => {
      const body = { recipient: { id: 'ada' }, ...more }
      const { status, text } = await fleet.post(at, { tenant: 'acme', body })
      assert.equal(status, 202, text)
    }
    await other.kill()
    await postAt(0)
    assert.equal(await sent(1, 30_000), 1)
    const sendAt = Date.now() + 12_000
    await postAt(0, { sendAt: new Date(sendAt).toISOString() })
    proxy.leadTo(newest.url)
    await other.start()
    await postAt(1, { priority: 'critical' })
    assert.equal(await sent(2, 30_000), 2)
    await other.kill()
    // On a busy machine the other one may have claimed it before it was killed: its limit holds all the same.
    if (Date.now() > sendAt - 2_000) t.diagnostic('either gateway may have claimed the second notification')
    await sleep(Math.max(0, sendAt + 1_500 - Date.now()))
    assert.equal(await sent(3, 0), 2, 'a right to send tells the newest server')

    proxy.leadTo(last.url)
    await other.start()
    await postAt(1)
    await postAt(0)
    assert.match((await connected.call('GET', '/readyz')).text, /ready/)
    assert.equal(await sent(3, 500), 2)
  })
})

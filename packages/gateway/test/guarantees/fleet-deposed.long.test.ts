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
    const [connected, other] = fleet.sites as readonly [Site, Site]
    // A gateway that is killed before it has settled a call leaves it to the other one, under the same id.
    const sent = async (id: string, count: number, withinMs: number): Promise<number> => {
      const own = async () =>
        (await callsOfTenant(fleet, 'acme', 0, 0)).filter(({ recipient }) => recipient === id)
      for (const until = performance.now() + withinMs; ; await sleep(100)) {
        const ids = new Set((await own()).map((call) => call.id))
        if (ids.size >= count || performance.now() >= until) return ids.size
      }
    }
    const postAt = async (at: number, id: string, more = {}) => {
      const { status, text } = await fleet.post(at, { tenant: 'acme', body: { recipient: { id }, ...more } })
      assert.equal(status, 202, text)
    }
    await other.kill()
    const from = Date.now()
    // The second notification has to wait until the other gateway has started, which takes long on a busy machine.
    const due = new Map([12, 24, 48].map((seconds) => [`ada${seconds}`, from + seconds * 1_000]))
    for (const [id, sendAt] of due) {
      await postAt(0, id)
      assert.equal(await sent(id, 1, 30_000), 1)
      await postAt(0, id, { sendAt: new Date(sendAt).toISOString() })
    }
    proxy.leadTo(newest.url)
    await other.start()
    const [ada, sendAt] = [...due].find(([, instant]) => instant > Date.now() + 5_000) ?? []
    assert.ok(ada !== undefined && sendAt !== undefined, 'the other gateway has taken 43 s to start')
    // A critical one passes the limit, and counts.
    await postAt(1, ada, { priority: 'critical' })
    assert.equal(await sent(ada, 2, 30_000), 2)
    assert.ok(Date.now() < sendAt, 'the critical one is sent before the second one is due')
    await other.kill()
    await sleep(Math.max(0, sendAt + 1_500 - Date.now()))
    assert.equal(await sent(ada, 3, 0), 2, 'a right to send tells the newest server')

    proxy.leadTo(last.url)
    await other.start()
    await postAt(1, ada)
    await postAt(0, ada)
    assert.match((await connected.call('GET', '/readyz')).text, /ready/)
    assert.equal(await sent(ada, 3, 500), 2)
  })
})

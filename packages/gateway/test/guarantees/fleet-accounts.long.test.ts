/**
 * Two gateways as processes of their own, of which the first, which judges the accounts, has an older configuration: it lacks an
 * account of the second, and a long window of another one; and two that have an account in different pools.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import process from 'node:process'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { createSite, startSink } from '../child.ts'
import { dropSchemas, schemaUrl } from '../store/postgres/database.ts'

const poolOf = (id: string, ...rate: readonly string[]) => ({
  provider: 'sandbox',
  accounts: [{ id, rate: rate.length === 1 ? rate[0] : rate }],
})

describe('a rolling deployment that changes accounts', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('sends by an account, and within a long window, that the judge does not know', async (t) => {
    const state = `${process.env.SLUICE_TEST_REDIS}?prefix=accounts:${randomBytes(4).toString('hex')}:`
    const siteOf = (pools: object) =>
      createSite(t, {
        policy: { version: 1, limits: [] },
        config: { store: schemaUrl('accounts'), state, pools },
      })
    const older = await siteOf({ sms: poolOf('old', '20/s', '600/h'), email: poolOf('main', '20/s') })
    const newer = await siteOf({
      sms: poolOf('renamed', '20/s', '600/h'),
      email: poolOf('main', '20/s', '600/h'),
    })
    await older.start()
    // It has the roles before the other one asks for them.
    await sleep(5_000)
    await newer.start()
    const ids: string[] = []
    for (let n = 0; n < 10; n += 1) {
      const answer = await newer.call('POST', '/api/v1/notifications', {
        recipient: { id: `r${n}`, phone: '+4915112345678', email: 'r@example.com' },
        channel: n % 2 === 0 ? 'sms' : 'email',
        content: { subject: 'Hello', text: `Hello ${n}` },
      })
      assert.equal(answer.status, 202, answer.text)
      ids.push(answer.json<{ notificationId: string }>().notificationId)
    }
    const until = Date.now() + 30_000
    for (const id of ids) {
      for (let status = ''; status !== 'delivered'; await sleep(100)) {
        const answer = await newer.call('GET', `/api/v1/notifications/${id}`)
        ;({ status } = answer.json<{ status: string }>())
        assert.ok(Date.now() < until, `${id} is ${status}`)
      }
    }
  })

  test('keeps the rate of an account that is in the second pool of one gateway, and in the first of another', async (t) => {
    const state = `${process.env.SLUICE_TEST_REDIS}?prefix=accounts:${randomBytes(4).toString('hex')}:&slot=60ms`
    const sink = await startSink(t, 'http')
    await sink.rules([{ match: 'POST /away', status: 503 }])
    const poolTo = (id: string) => ({
      provider: 'webhook',
      breaker: { inARow: 3 },
      accounts: [{ id, url: new URL(id, sink.url).href, rate: '5/s' }],
    })
    const siteOf = (...webhook: readonly object[]) =>
      createSite(t, {
        policy: { version: 1, limits: [] },
        config: { store: schemaUrl('orders'), state, pools: { webhook } },
      })
    const sites = [await siteOf(poolTo('away'), poolTo('main')), await siteOf(poolTo('main'))]
    for (const site of sites) await site.start()
    for (let n = 0; n < 100; n += 1) {
      const answer = await sites[n % 2]!.call('POST', '/api/v1/notifications', {
        recipient: { id: `r${n}` },
        channel: 'webhook',
        content: { text: `Hello ${n}` },
      })
      assert.equal(answer.status, 202, answer.text)
    }
    const called = async () =>
      (await sink.dump()).requests.filter(({ path }) => path === '/main').map(({ at }) => at)
    for (const until = Date.now() + 30_000; (await called()).length < 40; await sleep(100))
      assert.ok(Date.now() < until, 'both call it')
    const instants = await called()
    for (let n = 5; n < instants.length; n += 1) {
      const apartMs = instants[n]! - instants[n - 5]!
      assert.ok(apartMs >= 1_000, `call ${n} came ${apartMs} ms after the fifth before it`)
    }
  })
})

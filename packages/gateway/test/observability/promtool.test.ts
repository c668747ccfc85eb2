/** promtool finds nothing wrong with the metrics of a gateway that has used every feature. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { createSite } from '../child.ts'

/** Each account ends calls differently, so that every metric with labels has series. */
const sandboxes = [
  { channel: 'email', account: { id: 'sound' } },
  { channel: 'sms', account: { id: 'refuses', odds: { reject: 1 } } },
  { channel: 'push', account: { id: 'broken', odds: { fail: 1 } } },
]
/** Accounts of a fourth channel, which must not add series each. */
const accounts = Array.from({ length: 500 }, (_, index) => ({ id: `account-${index}` }))
/** A bound that operators rely on: the series of one gateway on the default path. */
const seriesMax = 1_500

test(
  'promtool check metrics finds no problem on any path, and 500 accounts make no more than 1,500 series on the default one',
  needs('promtool'),
  async (t) => {
    const pools = {
      ...Object.fromEntries(
        sandboxes.map(({ channel, account }) => [channel, { provider: 'sandbox', accounts: [account] }]),
      ),
      slack: { provider: 'sandbox', accounts },
    }
    const policy = { version: 1, limits: [], deduplication: { window: '1h' } }
    const site = await createSite(t, {
      config: { pools, metrics: { accounts: true, tenants: { top: 20 } } },
      policy,
    })
    await site.start()
    const send = (channel: string, text: string, id = 'ada') =>
      site.call('POST', '/api/v1/notifications', {
        recipient: { id, email: `${id}@example.com`, phone: '+390612345678', pushToken: `push-${id}` },
        channel,
        content: { subject: text, text },
      })
    for (const { channel } of sandboxes)
      for (const text of ['one', 'one', 'two']) assert.equal((await send(channel, text)).status, 202)
    const metrics = async () => (await site.call('GET', '/metrics')).text
    const begunMs = performance.now()
    while (!(await metrics()).includes('outcome="retry"') && performance.now() - begunMs < 10_000)
      await sleep(50)
    const input = await metrics()
    for (const [label, value] of [
      ['status', 'delivered'],
      ['reason', 'duplicate'],
      ['outcome', 'failed'],
      ['outcome', 'retry'],
    ])
      assert.match(input, new RegExp(`${label}="${value}"`))
    const series = input.split('\n').filter((line) => line !== '' && !line.startsWith('#')).length
    assert.ok(series <= seriesMax, `${series} series`)
    for (const path of ['/metrics', '/metrics/accounts', '/metrics/tenants']) {
      const { status, text } = await site.call('GET', path)
      assert.equal(status, 200, path)
      assert.match(text, /^sluice_/m, path)
      const judged = spawnSync(process.env.SLUICE_TEST_PROMTOOL!, ['check', 'metrics'], {
        input: text,
        encoding: 'utf8',
      })
      assert.deepEqual([judged.stdout, judged.stderr, judged.status], ['', '', 0], path)
    }
  },
)

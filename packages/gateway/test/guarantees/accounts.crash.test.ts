/** A gateway that is killed in the middle of trouble with its accounts: nothing is lost, and nobody is called early. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, startSink } from '../child.ts'

const messages = 200

test('a 429 block and an open breaker survive a kill, and everything is delivered', async (t) => {
  const sink = await startSink(t, 'http')
  await sink.rules([
    { match: '/throttled', status: 429, headers: { 'retry-after': '20' }, times: 1 },
    { match: '/broken', status: 500, times: 10 },
  ])
  const accounts = ['throttled', 'broken', 'well'].map((id) => ({
    id,
    url: `${sink.url}/${id}`,
    rate: '50/s',
    concurrency: 1,
  }))
  const pool = { provider: 'webhook', accounts, breaker: { coolDown: '15s' } }
  const site = await createSite(t, { policy: { version: 1, limits: [] }, config: { pools: { email: pool } } })
  await site.start()
  for (let index = 0; index < messages; index += 1) {
    const answer = await site.call('POST', '/api/v1/notifications', {
      recipient: { id: `p${index}`, email: `p${index}@example.com` },
      channel: 'email',
      content: { subject: 's', text: `${index}` },
    })
    assert.equal(answer.status, 202)
  }
  const reported = async () =>
    (await site.call('GET', '/api/v1/pools'))
      .json<{ pools: { channel: string; accounts: { id: string; status: string }[] }[] }>()
      .pools.find(({ channel }) => channel === 'email')!.accounts
  const statuses = async () => (await reported()).map(({ status }) => status)
  for (let tries = 0; tries < 1_000 && (await statuses()).join() !== 'blocked,open,healthy'; tries += 1)
    await sleep(50)
  assert.deepEqual(await statuses(), ['blocked', 'open', 'healthy'])
  await sleep(50)
  await site.kill()
  await site.start()
  assert.deepEqual(await statuses(), ['blocked', 'open', 'healthy'], 'known again after the kill')
  const delivered = async (): Promise<number> => {
    const { text } = await site.call('GET', '/metrics')
    return Number(/^sluice_notifications\{status="delivered"\} (\d+)$/m.exec(text)?.[1])
  }
  for (let tries = 0; tries < 480 && (await delivered()) < messages; tries += 1) await sleep(250)
  assert.equal(await delivered(), messages)
  const { requests } = await sink.dump()
  const at = (id: string) => requests.filter(({ path }) => path === `/${id}`).map((request) => request.at)
  const throttled = at('throttled')
  if (throttled.length > 1)
    assert.ok(throttled[1]! - throttled[0]! >= 19_990, 'blocked for as long as it said')
  const failed = at('broken')
  if (failed.length > 10) assert.ok(failed[10]! - failed[9]! >= 14_990, 'left alone for the cool-down')
})

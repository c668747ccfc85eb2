/** An account that an operator took out stays out over a kill, counted at the sockets of the accounts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, startSink } from '../child.ts'

test('a held account gets nothing from the answer on, also after a kill, and is back by itself', async (t) => {
  const sink = await startSink(t, 'http')
  const accounts = ['out', 'in'].map((id) => ({ id, url: `${sink.url}/${id}`, rate: '50/s' }))
  const site = await createSite(t, {
    policy: { version: 1, limits: [] },
    config: { pools: { webhook: { provider: 'webhook', accounts } } },
  })
  await site.start()
  const send = async (count: number) => {
    for (let sent = 0; sent < count; sent += 1) {
      const body = { channel: 'webhook', recipient: { id: `user-${sent}` }, content: { text: 'message' } }
      assert.equal((await site.call('POST', '/api/v1/notifications', body)).status, 202)
    }
  }
  const arrivals = async (id: string) =>
    (await sink.dump()).requests.filter(({ path }) => path === `/${id}`).map(({ at }) => at)
  const until = async (what: () => Promise<boolean>) => {
    const end = performance.now() + 20_000
    while (!(await what())) {
      assert.ok(performance.now() < end, 'in time')
      await sleep(20)
    }
  }
  await send(20)
  await until(async () => (await arrivals('out')).length + (await arrivals('in')).length === 20)
  assert.ok((await arrivals('out')).length > 0)

  const hold = async (forMs: number): Promise<number> => {
    const end = Date.now() + forMs
    const answer = await site.call('PUT', '/api/v1/pools/webhook/out/hold', {
      until: new Date(end).toISOString(),
      reason: 'a new key',
    })
    assert.equal(answer.status, 200, answer.text)
    return end
  }
  const first = await hold(600_000)
  const heldFrom = Date.now()
  await send(20)
  await site.kill()
  await site.start()
  const { pools } = (await site.call('GET', '/api/v1/pools?status=held')).json<{
    pools: { channel: string; accounts: { id: string; outBecause: string; outUntil: string }[] }[]
  }>()
  const [held, ...others] = pools.find(({ channel }) => channel === 'webhook')!.accounts
  assert.deepEqual([held?.id, held?.outBecause, others], ['out', 'hold', []])
  assert.ok(Math.abs(Date.parse(held!.outUntil) - first) < 1_000, held!.outUntil)

  const end = await hold(1_500)
  await until(async () => {
    await send(4)
    return (await arrivals('out')).some((at) => at >= heldFrom)
  })
  const back = Math.min(...(await arrivals('out')).filter((at) => at >= heldFrom))
  assert.ok(back >= end - 1, `back ${back - end} ms after the end of the hold`)
})

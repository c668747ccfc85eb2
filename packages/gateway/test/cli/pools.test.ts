import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as after } from 'node:timers/promises'
import { runningGateway, sluice } from './session.ts'

test('pools shows each account with its rate and state', async (t) => {
  const gateway = await runningGateway(
    t,
    'pools: { sms: { provider: sandbox, accounts: [{ id: first, rate: [10/s, 100/h] }, { id: second, concurrency: 3 }] }, push: { provider: sandbox } }',
  )
  const { code, out, err } = await sluice(['pools', '--url', gateway.url])
  assert.equal(code, 0, err)
  const lines = out.split('\n')
  // Besides the pools of the configuration there is the one for WebSocket clients.
  assert.equal(lines.length, 5)
  assert.match(
    lines[0]!,
    /^channel +provider +account +rate +used +state +out until +because +learned rate +calls at once$/,
  )
  assert.match(out, /^sms +sandbox +first +10\/s, 100\/h +0 +healthy +– +– +– +1024$/m)
  assert.match(out, /^sms +sandbox +second +unlimited +0 +healthy +– +– +– +3$/m)
  const wide = (await sluice(['pools', '--wide', '--channel', 'sms', '--url', gateway.url])).out
  assert.match(
    wide,
    /calls at once +out since +windows +in flight +p99 +delivered\/min +failed\/min +429\/min\n/,
  )
  assert.match(wide, /^sms +sandbox +first .* 1024 +– +0\/10 of 10\/s, 0\/100 of 100\/h +0 +– +0 +0 +0$/m)
  const json = JSON.parse((await sluice(['pools', '--json', '--url', gateway.url])).out)
  assert.deepEqual(json.pools.map((pool: { channel: string }) => pool.channel).sort(), [
    'push',
    'sms',
    'websocket',
  ])
})

test('an account of the sandbox behaves as the configuration says', async (t) => {
  const gateway = await runningGateway(
    t,
    'pools: { sms: { provider: sandbox, retry: { attempts: 1 }, accounts: [{ id: broken, odds: { fail: 100% } }] } }',
  )
  await gateway.post('/notifications', {
    recipient: { id: 'u', phone: '+391234567890' },
    channel: 'sms',
    category: 'security',
    content: { text: 'code' },
  })
  for (let tries = 0; tries < 2_000; tries += 1) {
    const { out } = await sluice(['dead-letters', '--url', gateway.url])
    if (/attempts_exhausted/.test(out)) return assert.match(out, /503 Service Unavailable/)
    await after(25)
  }
  assert.fail('it was delivered')
})

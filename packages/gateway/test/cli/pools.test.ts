import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runningGateway, sluice } from './session.ts'

test('pools shows each account with its rate and state', async (t) => {
  const gateway = await runningGateway(
    t,
    'pools: { sms: { provider: sandbox, accounts: [{ id: first, rate: [10/s, 100/h] }, { id: second, concurrency: 3 }] }, push: { provider: sandbox } }',
  )
  const { code, out, err } = await sluice(['pools', '--url', gateway.url])
  assert.equal(code, 0, err)
  const lines = out.split('\n')
  assert.equal(lines.length, 4)
  assert.match(
    lines[0]!,
    /^channel +provider +account +rate +used +state +blocked until +learned rate +calls at once$/,
  )
  assert.match(out, /^sms +sandbox +first +10\/s, 100\/h +0 +healthy +– +– +1024$/m)
  assert.match(out, /^sms +sandbox +second +unlimited +0 +healthy +– +– +3$/m)
  const json = JSON.parse((await sluice(['pools', '--json', '--url', gateway.url])).out)
  assert.deepEqual(json.pools.map((pool: { channel: string }) => pool.channel).sort(), ['push', 'sms'])
})

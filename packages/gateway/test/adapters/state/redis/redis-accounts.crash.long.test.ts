/**
 * Four real processes call shared accounts as often as they may, while the process that judges is killed and Redis loses
 * everything: a sink of its own counts every rolling window of the instants at which calls were written. The long form, with
 * the share that is used and what Redis spends, is bench/account-fleet.ts.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { startRedis } from '../../../../../../scripts/services/redis.ts'
import { Fleet, machineMs } from './account-fleet/fleet.ts'

const accounts = [
  { id: 'ten', rate: ['10/s'] },
  { id: 'hundred', rate: ['100/s'] },
  { id: 'thousand', rate: ['1000/s'] },
  { id: 'forty', rate: ['40/4s'] },
  { id: 'both', rate: ['30/s', '60/3s'] },
  { id: 'narrow', rate: ['500/s'], concurrency: 5 },
]

describe('accounts of four processes', () => {
  it('have no window over when the judge is killed and Redis forgets everything', async (t) => {
    const service = await startRedis()
    t.after(() => service.stop())
    const admin = new Redis(service.url)
    t.after(() => admin.disconnect())
    const fleet = new Fleet({ url: service.url, prefix: 'crash:', accounts, askMs: 2, callMs: 10 })
    await fleet.open()
    for (let member = 0; member < 4; member += 1) fleet.start()
    await fleet.ready(500)
    fleet.kill()
    fleet.start()
    await sleep(1_500)
    await admin.flushall()
    const lostAt = machineMs()
    await sleep(6_000)
    await fleet.close()
    t.diagnostic(JSON.stringify([...fleet.counts.values()]))
    assert.deepEqual(fleet.over(), [])
    for (const { id } of accounts)
      assert.ok(fleet.between(id, lostAt + 100, machineMs()) > 0, `${id} is called again after the loss`)
  })

  it('call a blocked account no more, but for what is on its way and a slot', async (t) => {
    const service = await startRedis()
    t.after(() => service.stop())
    const fleet = new Fleet({
      url: service.url,
      prefix: 'storm:',
      accounts: [{ id: 'storm', rate: ['400/s'] }],
      askMs: 2,
      callMs: 10,
    })
    await fleet.open()
    for (let member = 0; member < 4; member += 1) fleet.start()
    await fleet.ready(1_500)
    fleet.tell({ kind: 'limit', account: 'storm', seconds: 30 })
    await sleep(3_000)
    await fleet.close()
    const [first, last] = [Math.min(...fleet.refused), Math.max(...fleet.calls.get('storm')!)]
    t.diagnostic(
      `${fleet.refused.length} calls were refused, the last ${(last - first).toFixed(0)} ms behind the first`,
    )
    assert.ok(fleet.refused.length > 0)
    // The first answer after 10 ms, a slot of 20 ms, half the margin; and a busy machine.
    assert.ok(last - first < 1_000, `${last - first} ms`)
    assert.ok(fleet.refused.length <= 400, 'no more than a window holds')
  })
})

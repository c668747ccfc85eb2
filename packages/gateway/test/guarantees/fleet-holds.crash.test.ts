/** The only gateway of a record is killed behind the end of a hold: whoever waited for it leaves when it is back. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { callsOf, startFleet } from './fleet.ts'

after(dropSchemas)

const count = 500

test(
  'all who waited for a hold leave though the gateway that ended it was killed',
  needs('postgres', 'redis'),
  async (t) => {
    const policy = { version: 1, limits: [{ name: 'few', for: 'any', max: ['10/day'], over: 'delay' }] }
    const fleet = await startFleet(t, { name: 'ended', count: 1, policy })
    const site = fleet.sites[0]!
    const until = new Date(Date.now() + 3_600_000).toISOString()
    const put = await site.call('PUT', '/api/v1/holds/pause', { until, reason: 'a test', channel: 'webhook' })
    assert.ok(put.status < 300, put.text)
    for (let done = 0; done < count; done += 100) {
      const recipients = Array.from({ length: 100 }, (_, n) => ({ id: `r${done + n}` }))
      const body = { recipients, channel: 'webhook', content: { text: 'Hello' } }
      const answer = await site.call('POST', '/api/v1/notifications/batch', body)
      assert.equal(answer.status, 202, answer.text)
    }
    const ended = await site.call('DELETE', '/api/v1/holds/pause')
    assert.equal(ended.status, 204)
    await site.kill()
    await site.start()
    let calls = 0
    for (const end = performance.now() + 60_000; performance.now() < end && calls < count; await sleep(500))
      calls = new Set((await callsOf(fleet)).map(({ id }) => id)).size
    assert.equal(calls, count)
  },
)

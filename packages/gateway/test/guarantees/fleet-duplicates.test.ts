/** Two gateways whose Redis loses a fingerprint between two equal notifications: both are accepted, and one of them leaves. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import type { Notification } from '../../src/model.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { callsOf, startFleet } from './fleet.ts'

const policy = {
  version: 1,
  limits: [{ name: 'all', for: 'any', max: '10/h', over: 'delay' }],
  deduplication: { window: '1h' },
}

after(dropSchemas)

test(
  'two equal notifications that were accepted around a loss are not both sent',
  needs('postgres', 'redis'),
  async (t) => {
    const { url: redis, stop } = await startRedis()
    t.after(stop)
    const fleet = await startFleet(t, { name: 'duplicates', policy, redis })
    const { sites, post } = fleet
    const admin = await createClient({ url: redis })
      .on('error', () => {})
      .connect()
    t.after(() => admin.destroy())
    // Later than all are accepted, on a busy machine too.
    const sendAt = new Date(Date.now() + 12_000).toISOString()
    const ids: string[][] = []
    for (let n = 0; n < 12; n += 1) {
      const body = { recipient: { id: `twin${n}` }, content: { subject: 'Twin', text: 'Twin' }, sendAt }
      const pair: string[] = []
      for (const at of [n % 2, (n + 1) % 2]) {
        const answer = await post(at, { body })
        assert.equal(answer.json<{ status: string }>().status, 'scheduled', answer.text)
        pair.push(answer.json<{ notificationId: string }>().notificationId)
        for (const key of await admin.keys('duplicates:*:prints')) await admin.del(key)
      }
      ids.push(pair)
    }
    // The server has forgotten both, and the record gives the fingerprint to the first.
    await admin.flushAll()
    const ended = async (id: string): Promise<Notification> => {
      for (let tries = 0; ; tries += 1) {
        const found = (await sites[0]!.call('GET', `/api/v1/notifications/${id}`)).json<Notification>()
        if (found.status === 'delivered' || found.status === 'suppressed' || tries === 100) return found
        await sleep(200)
      }
    }
    for (const pair of ids) {
      const [first, second] = await Promise.all(pair.map(ended))
      assert.deepEqual([first!.status, second!.status], ['delivered', 'suppressed'])
      assert.equal(second!.timeline.at(-1)!.reason, 'duplicate')
    }
    const calls = await callsOf(fleet)
    assert.deepEqual(calls.map(({ id }) => id).toSorted(), ids.map(([id]) => id!).toSorted())
  },
)

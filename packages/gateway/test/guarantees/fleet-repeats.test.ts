/** A request with an Idempotency-Key whose gateway is killed while it works on it: another gateway answers its repetition. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { ask, dropSchemas, schemaUrl } from '../store/postgres/database.ts'
import { startFleet } from './fleet.ts'

after(dropSchemas)

test(
  'a repetition is worked on within some 15 s of the kill, and accepted once',
  needs('postgres', 'redis'),
  async (t) => {
    const { sites, post } = await startFleet(t, { name: 'repeats' })
    const request = { key: 'order-1', body: { recipient: { id: 'r' }, content: { text: 'Shipped' } } }
    const store = schemaUrl('repeats')
    const locked = ask(store, 'LOCK TABLE notification IN EXCLUSIVE MODE; SELECT pg_sleep(3)')
    await sleep(500)
    const lost = post(0, request).catch(() => undefined)
    await sleep(1_000)
    await sites[0]!.kill()
    // The server would end the commit that waits for the lock, though nobody hears of it.
    await ask(
      store,
      `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND relation = 'notification'::regclass`,
    )
    const killedAt = performance.now()
    assert.equal(await lost, undefined)
    await locked
    const statuses = new Set<number>()
    for (;;) {
      const { status, text } = await post(1, request)
      statuses.add(status)
      if (status === 202) break
      assert.equal(status, 409, text)
      assert.ok(performance.now() - killedAt < 20_000, 'the repetition is still refused after 20 s')
      await sleep(500)
    }
    assert.deepEqual([...statuses], [409, 202], 'the first one was in progress')
    const again = await post(1, request)
    assert.deepEqual([again.status, again.headers['idempotency-replayed']], [202, 'true'])
    const list = await sites[1]!.call('GET', '/api/v1/notifications?recipient=r')
    assert.equal(list.json<{ items: unknown[] }>().items.length, 1)
  },
)

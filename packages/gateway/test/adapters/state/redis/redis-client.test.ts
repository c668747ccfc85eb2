import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRedisClient } from '../../../../src/adapters/state/redis/redis-client.ts'

test('clients of all addresses share one class, which takes long to make', () => {
  const [one, other, again] = ['redis://127.0.0.1:1', 'rediss://u:p@127.0.0.1:2', 'redis://127.0.0.1:1'].map(
    (url) => createRedisClient({ url, commandOptions: { timeout: 0 } }),
  )
  assert.equal(one!.hGetAll, other!.hGetAll)
  assert.equal(one!.hGetAll, again!.hGetAll)
})

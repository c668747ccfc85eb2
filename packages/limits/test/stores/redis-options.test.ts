import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LimitsError, type RedisClient, type RedisStoreOptions, redisStore } from '../../src/index.ts'

const client = {
  evalsha() {},
  evalshaBuffer: () => Promise.reject(new Error('nobody is there')),
  evalBuffer: () => Promise.reject(new Error('nobody is there')),
}
const refused = (error: unknown) => error instanceof LimitsError && error.code === 'INVALID_ARGUMENT'

test('a Redis store refuses clients that it does not know, and options that make no sense', () => {
  for (const stranger of [undefined, null, {}, 'redis://127.0.0.1', { evalsha() {} }]) {
    assert.throws(() => redisStore(stranger as unknown as RedisClient), refused)
  }
  const wrong: unknown[] = [
    null,
    'sluice:',
    { deadline: 5 },
    { deadlineMs: 0 },
    { deadlineMs: 1.5 },
    { retentionMs: -1 },
    { prefix: 7 },
    { now: 1 },
    { onUnavailable: 'wait' },
    { onUnavailable: null },
    { onUnavailable: { share: 0 } },
    { onUnavailable: { share: 1.1 } },
  ]
  for (const options of wrong) {
    assert.throws(() => redisStore(client, options as RedisStoreOptions), refused, JSON.stringify(options))
  }
  redisStore(client, { deadlineMs: 1, retentionMs: 1, prefix: '', onUnavailable: { share: 1 } })
})

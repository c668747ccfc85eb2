import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  createLimits,
  LimitsError,
  type RedisClient,
  type RedisStoreOptions,
  redisStore,
} from '../../src/index.ts'

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

test('a Redis store asks a client of your own, which is given the script once', async () => {
  const scripts: string[] = []
  const asked: (readonly string[])[] = []
  const own = {
    runnerOf(script: string) {
      scripts.push(script)
      return async (key: string, args: string[]) => {
        asked.push([key, ...args])
        return Buffer.from('1')
      }
    },
  }
  const limits = createLimits({ store: redisStore(own, { prefix: 'p:' }) })
  assert.equal(await limits.cancel('ada', '1'), true)
  assert.equal(await limits.has('bob'), true)
  assert.equal(scripts.length, 1)
  assert.match(scripts[0]!, /redis\.call/)
  assert.deepEqual(
    asked.map(([key, kind]) => [key, kind]),
    [
      ['p:{ada}', 'x'],
      ['p:{bob}', 'h'],
    ],
  )
  const broken = redisStore({ runnerOf: () => () => Promise.reject(new Error('away')) })
  await assert.rejects(createLimits({ store: broken }).has('ada'), { code: 'STORE_UNAVAILABLE' })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../../../scripts/services/redis.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { createRedisClient } from '../../../../src/adapters/state/redis/redis-client.ts'
import { createRedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { onceScript } from '../../../../src/adapters/state/redis/scripts.ts'

test('clients of all addresses share one class, which takes long to make', () => {
  const [one, other, again] = ['redis://127.0.0.1:1', 'rediss://u:p@127.0.0.1:2', 'redis://127.0.0.1:1'].map(
    (url) => createRedisClient({ url, commandOptions: { timeout: 0 } }),
  )
  assert.equal(one!.hGetAll, other!.hGetAll)
  assert.equal(one!.hGetAll, again!.hGetAll)
})

test('connections that are given up before they are made are not left open', needs('redis'), async (t) => {
  const service = await startRedis()
  const admin = createRedisClient({ url: service.url })
  await admin.connect()
  t.after(async () => {
    admin.destroy()
    await service.stop()
  })
  const redis = createRedisState({
    url: service.url,
    registrations: createMemoryRegistrations(),
    clock: createSystemClock(),
    deadlineMs: 5_000,
  })
  t.after(() => redis.close())
  const keep = () => redis.ask(onceScript, { subject: 'a', name: '' }, ['keep', 'm', '', '1'])
  const kept = keep()
  redis.renew()
  redis.renew()
  await kept
  const open = async () =>
    String(await admin.sendCommand(['CLIENT', 'LIST']))
      .trim()
      .split('\n').length
  const endMs = performance.now() + 2_000
  while ((await open()) > 2 && performance.now() < endMs) await sleep(20)
  assert.equal(await open(), 2)
})

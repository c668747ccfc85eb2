/** Opens the throttle queues of the tenant `acme` on the Redis or the Redis Cluster of the tests, in virtual time. */
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import {
  createRedisThrottle,
  type ThrottleRecord,
} from '../../../../src/adapters/state/redis/redis-throttle.ts'
import type { ThrottleTerms } from '../../../../src/conformance/throttle.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { type Engine, newPrefix, openRedis } from './open.ts'
import { createThrottleRecord } from './throttle-record.ts'

export function openThrottle(engine: Engine, terms: ThrottleTerms) {
  const clock = createVirtualClock(1_000_000)
  const record = createThrottleRecord('acme')
  const prefix = newPrefix()
  const rates = { tenant: terms.tenant, module: terms.module }
  const ratesOf = (tenant: string) => (tenant === 'acme' ? rates : { tenant: [], module: [] })
  const openState = (
    own = rates,
    from: ThrottleRecord = record,
    over = (redis: RedisState): RedisState => redis,
  ) =>
    createRedisThrottle({
      redis: over(openRedis(engine, { prefix, clock, isVirtual: true })),
      record: from,
      clock,
      marginMs: terms.marginMs,
      ratesOf: (tenant) => (tenant === 'acme' ? own : ratesOf(tenant)),
    })
  const state = openState()
  return {
    state,
    openState,
    record,
    key: `${prefix}{T/acme}:throttle`,
    now: clock.now,
    async until(instant: number) {
      await clock.runUntil(instant)
      // Answered behind whatever was asked when timers ran.
      await state.use('acme', 'shop')
    },
  }
}

/** Opens the limits of recipients on the Redis or the Redis Cluster of the tests, with a record that the test keeps. */
import type { RedisLimitsOptions } from '../../../../src/adapters/state/redis/redis-limits.ts'
import { createRedisLimits } from '../../../../src/adapters/state/redis/redis-limits.ts'
import type { OpenLimits, SubjectFacts } from '../../../../src/conformance/limits.ts'
import type { LimitState, Subject } from '../../../../src/ports.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { type Engine, newPrefix, openRedis } from './open.ts'

export interface OpenRedisLimits extends OpenLimits {
  readonly prefix: string
  readonly redis: RedisLimitsOptions['redis']
  /** Opens the state of another process. */
  readonly openState: (more?: Partial<RedisLimitsOptions>) => LimitState
}

let members = 0

export function openLimits(engine: Engine): OpenRedisLimits {
  const clock = createVirtualClock(1_000_000)
  const prefix = newPrefix()
  const record = new Map<string, SubjectFacts>()
  const reads: Subject[] = []
  const outdated: Subject[] = []
  let rules = 1
  const redis = openRedis(engine, { prefix, clock, isVirtual: true })
  function openState(more: Partial<RedisLimitsOptions> = {}): LimitState {
    members += 1
    return createRedisLimits({
      redis,
      clock,
      member: `m${members}`,
      marginMs: 20,
      recover(subject) {
        reads.push(subject)
        return { entries: [], fingerprints: [], waitlist: [], ...record.get(subject.key) }
      },
      rulesName: () => `rules ${rules}`,
      onOutdated: (subject) => outdated.push(subject),
      ...more,
    })
  }
  const state = openState()
  return {
    prefix,
    redis,
    state,
    openState,
    now: clock.now,
    until: (at) => clock.runUntil(at),
    record,
    reads,
    outdated,
    renew() {
      rules += 1
      state.renew()
    },
  }
}

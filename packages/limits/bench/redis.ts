/**
 * The limiter over Redis, as a contestant for the harness of the peers: `npm run limiter-redis -- --extra <this file>`
 * there puts it beside what others offer, in the same minute.
 */
import { createLimits, limit, type RedisClient, redisStore } from '../src/index.ts'

interface PeerRule {
  readonly id: string
  readonly scope: string
  readonly limit?: number
  readonly windowMs?: number
  readonly minDistanceMs?: number
}

interface Stage {
  readonly redis: RedisClient
  readonly prefix: string
  readonly rules: readonly PeerRule[]
}

export default {
  name: 'ours',
  algorithm: 'exact log, reservations',
  roundTrips: '1 EVALSHA',
  ruleSets: ['R1', 'R3', 'R6'],
  create({ redis, prefix, rules }: Stage) {
    const { take } = createLimits({ store: redisStore(redis, { prefix, deadlineMs: 10_000 }) })
    const limits = rules.map(({ id, scope: stream, limit: max, windowMs, minDistanceMs }) =>
      minDistanceMs === undefined
        ? limit(id, `${max}/${windowMs}ms`, { stream })
        : limit(id, [], { stream, minGap: minDistanceMs }),
    )
    return { consume: async (subject: string) => (await take(subject, limits)).allowed }
  },
}

/**
 * What is compared over Redis, each as its own documentation or the usual blog post has it. JavaScript, because its
 * packages are no dependencies of the project, so that there are no types of them to check against.
 */
import { createLimits, limit, redisStore } from '@sluice/limits'
import { Ratelimit } from '@upstash/ratelimit'
import { RateLimiterRedis, RateLimiterUnion } from 'rate-limiter-flexible'
import { RedisRateLimiter } from 'rolling-rate-limiter'

export const limitsOf = (rules) =>
  rules.map(({ stream, max, windowMs }, index) => limit(`rule-${index}`, `${max}/${windowMs}ms`, { stream }))

const all = (promises) => Promise.all(promises).then((answers) => answers.every(Boolean))

/** @type {Record<string, import('./rules.ts').Contestant>} */
export const contestants = {
  sluice: {
    name: '@sluice/limits',
    kind: 'exact log, one script',
    open({ redis, prefix, rules }) {
      const { take } = createLimits({ store: redisStore(redis, { prefix, deadlineMs: 30_000 }) })
      const limits = limitsOf(rules)
      return async (subject) => (await take(subject, limits)).allowed
    },
  },
  'rate-limiter-flexible': {
    name: 'rate-limiter-flexible',
    kind: 'fixed windows, a script a rule',
    open({ redis, prefix, rules }) {
      // Its windows are whole seconds: below one, its key never expires. A short one is widened with its count.
      const limiters = rules.map(({ max, windowMs }, index) => {
        const short = windowMs < 1_000
        const points = short ? Math.floor((max * 1_000) / windowMs) : max
        const duration = short ? 1 : windowMs / 1_000
        return new RateLimiterRedis({ storeClient: redis, keyPrefix: `${prefix}${index}`, points, duration })
      })
      const limiter = limiters.length === 1 ? limiters[0] : new RateLimiterUnion(...limiters)
      const refused = (reason) => {
        const errors = reason instanceof Error ? [reason] : Object.values(reason)
        const error = errors.find((each) => each instanceof Error)
        if (error !== undefined) throw error
        return false
      }
      return (subject) => limiter.consume(subject).then(() => true, refused)
    },
  },
  upstash: {
    name: '@upstash/ratelimit',
    kind: 'two weighted counters, a script a rule',
    async open({ redis, prefix, rules }) {
      const lua = (await upstashScript()).replace(/^#![^\n]*\n/, '') // the flags of newer servers
      redis.defineCommand('upstashWindow', { numberOfKeys: 2, lua })
      const ask = async ({ max, windowMs }, index, subject, now) => {
        const key = `${prefix}${index}:${subject}`
        const window = Math.floor(now / windowMs)
        const [left] = await redis.upstashWindow(
          `${key}:${window}`,
          `${key}:${window - 1}`,
          max,
          now,
          windowMs,
          1,
        )
        return left >= 0
      }
      return (subject) => {
        const now = Date.now()
        return all(rules.map((rule, index) => ask(rule, index, subject, now)))
      }
    },
  },
  'gcra-script': {
    name: 'GCRA',
    kind: 'one number a rule, one script',
    open: scripted(`
      local now = tonumber(ARGV[1])
      local until_ = redis.call('MGET', unpack(KEYS))
      for i = 1, #KEYS do
        local window = tonumber(ARGV[2 * i + 2])
        local at = math.max(tonumber(until_[i] or now), now) + window / tonumber(ARGV[2 * i + 1])
        if at - now > window then return 0 end
        until_[i] = at
      end
      for i = 1, #KEYS do
        redis.call('SET', KEYS[i], string.format('%.3f', until_[i]), 'PX', math.ceil(until_[i] - now) + 1)
      end
      return 1`),
  },
  'zset-script': {
    name: 'sorted sets, one script',
    kind: 'exact log a rule, one script',
    open: scripted(`
      local now = tonumber(ARGV[1])
      for i = 1, #KEYS do
        redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now - tonumber(ARGV[2 * i + 2]))
        if redis.call('ZCARD', KEYS[i]) >= tonumber(ARGV[2 * i + 1]) then return 0 end
      end
      for i = 1, #KEYS do
        redis.call('ZADD', KEYS[i], now, ARGV[2])
        redis.call('PEXPIRE', KEYS[i], ARGV[2 * i + 2])
      end
      return 1`),
  },
  'zset-per-rule': {
    name: 'sorted sets, no script',
    kind: 'exact log a rule, read then write',
    open({ redis, prefix, rules }) {
      let calls = 0
      return async (subject) => {
        const now = Date.now()
        const keys = rules.map((_, index) => `${prefix}${index}:${subject}`)
        const counts = await Promise.all(
          rules.map(({ windowMs }, index) => redis.zcount(keys[index], now - windowMs + 1, '+inf')),
        )
        if (counts.some((count, index) => count >= rules[index].max)) return false
        calls += 1
        const writes = redis.pipeline()
        for (const [index, { windowMs }] of rules.entries()) {
          writes.zremrangebyscore(keys[index], '-inf', now - windowMs)
          writes.zadd(keys[index], now, `${now}-${calls}`)
          writes.pexpire(keys[index], windowMs)
        }
        await writes.exec()
        return true
      }
    },
  },
  'rolling-rate-limiter': {
    name: 'rolling-rate-limiter',
    kind: 'exact log a rule, MULTI',
    open({ redis: client, prefix, rules }) {
      const limiters = rules.map(({ max, windowMs }, index) => {
        return new RedisRateLimiter({
          client,
          namespace: `${prefix}${index}:`,
          interval: windowMs,
          maxInInterval: max,
        })
      })
      return (subject) => all(limiters.map(async (limiter) => !(await limiter.limit(subject))))
    },
  },
  'floor-get-set': {
    name: 'floor: GET and SET of 300 bytes',
    kind: 'one script that decides nothing',
    sets: ['R1'],
    floor: true,
    open({ redis, prefix }) {
      const lua = "redis.call('GET', KEYS[1]) redis.call('SET', KEYS[1], ARGV[1]) return 1"
      redis.defineCommand('floorGetSet', { numberOfKeys: 1, lua })
      const value = 'x'.repeat(300)
      return async (subject) => (await redis.floorGetSet(prefix + subject, value)) === 1
    },
  },
  'floor-empty': {
    name: 'floor: an empty script',
    kind: 'one script that decides nothing',
    sets: ['R1'],
    floor: true,
    open({ redis, prefix }) {
      redis.defineCommand('floorEmpty', { numberOfKeys: 1, lua: 'return 1' })
      return async (subject) => (await redis.floorEmpty(prefix + subject)) === 1
    },
  },
}

/** ARGV: now, a member that nobody else has, then count and window of each key. */
function scripted(lua) {
  return ({ redis, prefix, rules }) => {
    redis.defineCommand('scripted', { numberOfKeys: rules.length, lua })
    const args = rules.flatMap(({ max, windowMs }) => [max, windowMs])
    let calls = 0
    return async (subject) => {
      calls += 1
      const now = Date.now()
      const keys = rules.map((_, index) => `${prefix}${index}:${subject}`)
      return (await redis.scripted(...keys, now, `${now}-${calls}`, ...args)) === 1
    }
  }
}

/** The text of its sliding window, got from itself: a client that knows no hash is sent the script. */
async function upstashScript() {
  let script
  const redis = {
    evalsha: async () => {
      throw new Error('NOSCRIPT')
    },
    async eval(text) {
      script = text
      return [1, 1]
    },
  }
  const limiter = Ratelimit.slidingWindow(1, '1 s')
  await new Ratelimit({ redis, limiter, ephemeralCache: false, timeout: 0 }).limit('anyone')
  return script
}

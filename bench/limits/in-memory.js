/** What is compared in memory, one process. JavaScript for the reason that over-redis.js gives. */
import { createLimits } from '@sluice/limits'
import Bottleneck from 'bottleneck'
import { TokenBucket } from 'limiter'
import { RateLimiterMemory, RateLimiterUnion } from 'rate-limiter-flexible'
import { InMemoryRateLimiter } from 'rolling-rate-limiter'
import { limitsOf } from './over-redis.js'

/** These two set a timer as long as the window, and Node's timers hold 24.8 days: a longer one ends at once. */
const windowMsMax = 24 * 86_400_000
const shortened = (rules) =>
  rules.map((rule) => ({ ...rule, windowMs: Math.min(rule.windowMs, windowMsMax) }))

/** @type {Record<string, import('./rules.ts').Contestant>} */
export const contestants = {
  'sluice-memory': {
    name: '@sluice/limits',
    kind: 'exact log, all or nothing',
    open({ rules }) {
      const { sync } = createLimits()
      const limits = limitsOf(rules)
      return (subject) => sync.take(subject, limits).allowed
    },
  },
  arrays: {
    name: 'naive exact arrays',
    kind: 'exact log, filtered each call',
    open({ rules }) {
      const logs = rules.map(() => new Map())
      return (subject) => {
        const now = Date.now()
        const kept = rules.map(({ windowMs }, index) =>
          (logs[index].get(subject) ?? []).filter((at) => at > now - windowMs),
        )
        if (kept.some((log, index) => log.length >= rules[index].max)) return false
        for (const [index, log] of kept.entries()) {
          log.push(now)
          logs[index].set(subject, log)
        }
        return true
      }
    },
  },
  limiter: {
    name: '`limiter` token buckets',
    kind: 'a bucket a rule, chained',
    open({ rules }) {
      const chains = new Map()
      const chain = () =>
        rules.reduce((parentBucket, { max, windowMs }) => {
          const bucket = new TokenBucket({
            bucketSize: max,
            tokensPerInterval: max,
            interval: windowMs,
            ...(parentBucket && { parentBucket }),
          })
          bucket.content = max
          return bucket
        }, undefined)
      return (subject) => {
        let bucket = chains.get(subject)
        if (bucket === undefined) {
          bucket = chain()
          chains.set(subject, bucket)
        }
        return bucket.tryRemoveTokens(1)
      }
    },
  },
  'rate-limiter-flexible-memory': {
    name: 'rate-limiter-flexible',
    kind: 'fixed windows',
    open({ rules }) {
      const limiters = shortened(rules).map(({ max, windowMs }, index) => {
        return new RateLimiterMemory({ keyPrefix: `${index}`, points: max, duration: windowMs / 1_000 })
      })
      const limiter = limiters.length === 1 ? limiters[0] : new RateLimiterUnion(...limiters)
      return (subject) =>
        limiter.consume(subject).then(
          () => true,
          () => false,
        )
    },
  },
  'rolling-rate-limiter-memory': {
    name: 'rolling-rate-limiter',
    kind: 'exact log a rule',
    open({ rules }) {
      const limiters = shortened(rules).map(({ max, windowMs }) => {
        return new InMemoryRateLimiter({ interval: windowMs, maxInInterval: max })
      })
      return async (subject) => {
        const blocked = await Promise.all(limiters.map((limiter) => limiter.limit(subject)))
        return !blocked.some(Boolean)
      }
    },
  },
  bottleneck: {
    name: 'bottleneck',
    kind: 'a scheduler with a reservoir, one rule',
    sets: ['R1'],
    open({ rules }) {
      const [{ max, windowMs }] = rules
      const group = new Bottleneck.Group({
        reservoir: max,
        reservoirRefreshAmount: max,
        reservoirRefreshInterval: windowMs,
        highWater: 0,
        strategy: Bottleneck.strategy.OVERFLOW,
      })
      return (subject) =>
        group
          .key(subject)
          .schedule(async () => true)
          .catch(() => false)
    },
  },
}

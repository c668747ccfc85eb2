/**
 * Coming from rolling-rate-limiter: the same numbers, the same answers, except that a refused attempt does not count
 * here. There somebody who keeps trying stays refused; with `countRefused` here too.
 */
import { createLimits, fromRollingRateLimiter, memoryStore } from '@sluice/limits'

let now = Date.UTC(2026, 10, 21, 12)
const options = { interval: 1_000, maxInInterval: 2, minDifference: 50 }
for (const countRefused of [false, true]) {
  const limits = createLimits({ store: memoryStore({ now: () => now }) })
  const rules = fromRollingRateLimiter({ ...options, countRefused })
  let admitted = 0
  for (const end = now + 5_000; now < end; now += 100)
    if ((await limits.take('user:42', rules)).allowed) admitted += 1
  console.log(
    `of 50 attempts in 5 s: ${admitted} (refused attempts ${countRefused ? 'count' : 'do not count'})`,
  )
}

/* prints
of 50 attempts in 5 s: 10 (refused attempts do not count)
of 50 attempts in 5 s: 2 (refused attempts count)
*/

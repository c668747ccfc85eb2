/**
 * A token bucket, where bursts do no harm: 100 tokens, refilled at 100 a second. The last lines show what it does not
 * promise, and what does.
 */
import { createLimits, limit, memoryBuckets, memoryStore, tokenBucket } from '@sluice/limits'

let now = Date.UTC(2026, 10, 21, 12)
const clock = () => now
const bucket = tokenBucket({ capacity: 100, refill: '100/s', store: memoryBuckets({ now: clock }) })

const burst = await bucket.take('api', 90)
console.log('a burst of 90:', burst.allowed, '·', burst.remaining, 'left')
const more = await bucket.take('api', 20)
console.log('20 more:', more.allowed, `· in ${more.retryAfterMs} ms`)

await bucket.reset('api')
const limits = createLimits({ store: memoryStore({ now: clock }) })
const rules = [limit('api', '100/s')]
let [byBucket, byLimit] = [0, 0]
for (const end = now + 1_000; now < end; now += 5) {
  while ((await bucket.take('api')).allowed) byBucket += 1
  while ((await limits.take('api', rules)).allowed) byLimit += 1
}
console.log(`in one second: ${byBucket} by the bucket, ${byLimit} by the limit`)

/* prints
a burst of 90: true · 10 left
20 more: false · in 100 ms
in one second: 199 by the bucket, 100 by the limit
*/

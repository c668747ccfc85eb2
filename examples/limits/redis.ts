/**
 * The same over Redis, shared by any number of processes: one key per subject, one round trip per call, the server's
 * clock. The client is yours: ioredis or node-redis, a single node, Sentinel or Cluster.
 */
import { createLimits, limit, redisStore } from '@sluice/limits'
import { Redis } from 'ioredis'

const client = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { enableAutoPipelining: true })
const limits = createLimits({
  store: redisStore(client, {
    prefix: 'example:',
    deadlineMs: 250, // no call takes longer, whatever Redis does
    onUnavailable: { share: 0.25 }, // one of four processes: meanwhile each keeps a quarter of every limit
  }),
})
const rules = [limit('api', '10/min')]
await limits.forget('user:42')

// Sixty-four callers at the same instant: ten pass, not one more.
const decisions = await Promise.all(Array.from({ length: 64 }, () => limits.take('user:42', rules)))
console.log(decisions.filter(({ allowed }) => allowed).length, 'of', decisions.length)

await limits.forget('user:42')
client.disconnect()

/* prints
10 of 64
*/

/**
 * The Redis of several gateways loses everything every two seconds while all of them accept. No window of a recipient, of the
 * account or of the acceptances of a tenant may hold more than its limit.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { startFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { schemaUrl } from '../../packages/gateway/test/store/postgres/database.ts'
import { startRedis } from '../../scripts/services/redis.ts'
import { burst, quantile } from './burst-load.ts'
import { countOver, isNothingOver, limits } from './over.ts'
import { beatMs, type Proof } from './proof.ts'

const periodMs = 2_000

export const flush: Proof = {
  shows: 'Redis loses everything every 2 s under four gateways: 0 windows over, 0 over in acceptances',
  engines: ['postgres'],
  small: { seconds: 14, processes: 4, clients: 12 },
  full: { seconds: 60, processes: 4, clients: 12 },
  async run({ cleanup, seconds, processes, clients, progress }) {
    const service = await startRedis()
    cleanup.after(() => service.stop())
    const admin = new Redis(service.url)
    cleanup.after(() => admin.disconnect())
    const name = 'proof_flush'
    const { policy, rate, tenants } = limits
    const fleet = await startFleet(cleanup, {
      name,
      redis: service.url,
      count: processes,
      beatMs,
      policy,
      rate,
      tenants,
    })
    const endsAt = performance.now() + seconds * 1_000
    const isOver = (): boolean => performance.now() >= endsAt
    let flushes = 0
    const flushing = (async () => {
      for (; !isOver(); await sleep(periodMs)) {
        await admin.flushall()
        flushes += 1
        progress(`${flushes} FLUSHALL`)
      }
    })()
    const { accepted, answers, tookMs } = await burst(fleet, isOver, clients)
    await flushing
    await sleep(4_000)
    const over = await countOver(fleet, schemaUrl(name))
    const figures = { processes, flushes, accepted: accepted.length, ...over, answers }
    return { figures: { ...figures, p99Ms: quantile(tookMs, 0.99) }, isRight: isNothingOver(over) }
  },
}

/**
 * A master of a Redis Cluster loses the link to its replica for 500 ms and goes on taking writes; then the replica takes over
 * without them, and later the old master takes over again. No gateway is restarted, and no window may be over.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { startFleet } from '../../packages/gateway/test/guarantees/fleet.ts'
import { schemaUrl } from '../../packages/gateway/test/store/postgres/database.ts'
import { startRedisCluster } from '../../scripts/services/redis-cluster.ts'
import { burst, quantile } from './burst-load.ts'
import { countOver, isNothingOver, limits } from './over.ts'
import { beatMs, type Proof } from './proof.ts'

const cutMs = 500

interface Node {
  readonly port: number
  readonly redis: Redis
}

const numberIn = (text: string, name: string): number =>
  Number(new RegExp(`${name}:(\\d+)`).exec(text)?.[1] ?? Number.NaN)

/** Waits until a node is a replica with its master's data, no longer than 20 s. */
async function untilReplica({ redis, port }: Node): Promise<void> {
  for (const until = performance.now() + 20_000; performance.now() < until; await sleep(50)) {
    const info = await redis.info('replication')
    if (info.includes('role:slave') && info.includes('master_link_status:up')) return
  }
  throw new Error(`the node at port ${port} did not become a replica within 20 s`)
}

/** The replica takes over without what its master wrote in the last 500 ms; returns how many bytes it lacks. */
async function takeOver(master: Node, replica: Node): Promise<number> {
  // Without these commands a replica can neither go on nor begin anew; clients do not use them.
  await master.redis.acl('SETUSER', 'default', '-psync', '-sync', '-replconf')
  await master.redis.call('CLIENT', 'KILL', 'TYPE', 'replica')
  await sleep(cutMs)
  const written = numberIn(await master.redis.info('replication'), 'master_repl_offset')
  const read = numberIn(await replica.redis.info('replication'), 'slave_repl_offset')
  await replica.redis.cluster('FAILOVER', 'TAKEOVER')
  await sleep(200)
  await master.redis.acl('SETUSER', 'default', '+psync', '+sync', '+replconf')
  return written - read
}

export const failOver: Proof = {
  shows: 'masters of a Redis Cluster fail over with 500 ms of writes lost, and back: 0 windows over',
  engines: ['postgres'],
  small: { times: 1, processes: 2, clients: 12 },
  full: { times: 5, processes: 4, clients: 12 },
  async run({ cleanup, times, processes, clients, progress }) {
    const service = await startRedisCluster({ replicas: 1 })
    cleanup.after(() => service.stop())
    const addresses = service.env.SLUICE_TEST_REDIS_CLUSTER!.split(',').map((url) => new URL(url))
    const nodes = addresses.map(({ hostname, port }) => {
      const redis = new Redis({ host: hostname, port: Number(port) })
      redis.on('error', () => {})
      cleanup.after(() => redis.disconnect())
      return { port: Number(port), redis }
    })
    const masters = nodes.slice(0, 3)
    const replicas: Node[] = []
    for (const { port } of masters) {
      for (const node of nodes)
        if (numberIn(await node.redis.info('replication'), 'master_port') === port) replicas.push(node)
    }
    const name = 'proof_failover'
    const { policy, rate, tenants } = limits
    const fleet = await startFleet(cleanup, {
      name,
      redis: `redis-cluster://${addresses.map(({ host }) => host).join(',')}`,
      count: processes,
      beatMs,
      policy,
      rate,
      tenants,
    })
    const pids = fleet.sites.map(({ pid }) => pid)
    let isOver = false
    const posting = burst(fleet, () => isOver, clients)
    let lostBytes = 0
    let failOvers = 0
    for (let round = 0; round < times; round += 1) {
      for (const [from, to] of [
        [masters, replicas],
        [replicas, masters],
      ] as const) {
        await sleep(3_000)
        for (const [index, master] of from.entries()) {
          lostBytes += await takeOver(master, to[index]!)
          failOvers += 1
        }
        for (const node of from) await untilReplica(node)
      }
      progress(`${failOvers} fail-overs, ${lostBytes} bytes lost`)
    }
    await sleep(3_000)
    isOver = true
    const { accepted, answers, tookMs } = await posting
    await sleep(4_000)
    const over = await countOver(fleet, schemaUrl(name))
    const restarted = fleet.sites.filter(({ pid }, at) => pid !== pids[at]).length
    const figures = {
      processes,
      failOvers,
      lostBytes,
      accepted: accepted.length,
      ...over,
      answers,
      restarted,
      p99Ms: quantile(tookMs, 0.99),
      mostMs: quantile(tookMs, 1),
    }
    return { figures, isRight: isNothingOver(over) && restarted === 0 && lostBytes > 0 }
  },
}

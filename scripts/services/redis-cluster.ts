/** A Redis Cluster of three masters: enough for slots and redirections; with replicas also for a failover. */
import { execFile } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { ensureInstalled } from './install.ts'
import { firstWords, freePort } from './port.ts'
import { answersPing, redisFlags, redisNeed } from './redis.ts'
import { type Service, type StartOptions, startService } from './service.ts'

const execute = promisify(execFile)

/** The cluster's bus listens at the port + 10,000 (Redis Cluster specification). */
const busDistance = 10_000

export interface RedisClusterOptions extends StartOptions {
  /**
   * How many replicas each master has.
   * @defaultValue 0
   */
  readonly replicas?: number
  /**
   * After this silence a node counts as gone, ms.
   * @defaultValue 2000
   */
  readonly nodeTimeoutMs?: number
}

/** Starts the cluster; its `env` names all nodes, separated by commas, and its `url` the first one. */
export async function startRedisCluster(options: RedisClusterOptions = {}): Promise<Service> {
  await ensureInstalled({ ...redisNeed, engine: 'redis-cluster' })
  const { replicas = 0, nodeTimeoutMs = 2_000 } = options
  return startService('redis-cluster', options, async ({ folder, run, until }) => {
    const ports: number[] = []
    while (ports.length < 3 * (1 + replicas)) {
      const port = await freePort([busDistance])
      if (!ports.includes(port)) ports.push(port)
    }
    for (const port of ports) {
      const home = join(folder, `${port}`)
      mkdirSync(home, { recursive: true })
      const cluster = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf']
      run(`node-${port}`, 'redis-server', [
        ...redisFlags(port, home),
        ...cluster,
        '--cluster-node-timeout',
        `${nodeTimeoutMs}`,
      ])
    }
    await until('the first answer of every node', async () =>
      (await Promise.all(ports.map(answersPing))).every(Boolean),
    )
    const nodes = ports.map((port) => `127.0.0.1:${port}`)
    const shape = ['--cluster-replicas', `${replicas}`, '--cluster-yes']
    // It asks for ever where a node does not hear of another one.
    await execute('redis-cli', ['--cluster', 'create', ...nodes, ...shape], { timeout: 60_000 })
    await until('agreement of all nodes', async () => (await Promise.all(ports.map(agrees))).every(Boolean))
    const urls = nodes.map((node) => `redis://${node}`)
    return { url: urls[0]!, env: { SLUICE_TEST_REDIS_CLUSTER: urls.join(',') } }
  })
}

/** A node knows all slots, and a replica has its master's data. */
async function agrees(port: number): Promise<boolean> {
  const state = await firstWords(port, 'CLUSTER INFO\r\n')
  const link = await firstWords(port, 'INFO replication\r\n')
  return state?.includes('cluster_state:ok') === true && link?.includes('master_link_status:down') === false
}

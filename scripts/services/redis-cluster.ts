/** A Redis Cluster of three masters without replicas: enough for slots, redirections and a lost third. */
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

/** Starts the cluster; its `env` names all nodes, separated by commas, and its `url` the first one. */
export async function startRedisCluster(options: StartOptions = {}): Promise<Service> {
  ensureInstalled({ ...redisNeed, engine: 'redis-cluster' })
  return startService('redis-cluster', options, async ({ folder, run, until }) => {
    const ports: number[] = []
    while (ports.length < 3) {
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
        '2000',
      ])
    }
    await until('the first answer of every node', async () =>
      (await Promise.all(ports.map(answersPing))).every(Boolean),
    )
    const nodes = ports.map((port) => `127.0.0.1:${port}`)
    await execute('redis-cli', ['--cluster', 'create', ...nodes, '--cluster-replicas', '0', '--cluster-yes'])
    await until('agreement of all nodes', async () => (await Promise.all(ports.map(agrees))).every(Boolean))
    const urls = nodes.map((node) => `redis://${node}`)
    return { url: urls[0]!, env: { SLUICE_TEST_REDIS_CLUSTER: urls.join(',') } }
  })
}

async function agrees(port: number): Promise<boolean> {
  return (await firstWords(port, 'CLUSTER INFO\r\n'))?.includes('cluster_state:ok') ?? false
}

/**
 * Redis under Sentinel: a master, its replica, and one Sentinel that promotes the replica when the master is gone. The
 * service's `pid` is the master's, to be killed in a test; clients ask `url` for the master called `sluice`.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ensureInstalled } from './install.ts'
import { firstWords, freePort } from './port.ts'
import { answersPing, redisFlags, redisNeed } from './redis.ts'
import { type Service, type StartOptions, startService } from './service.ts'

/** How Sentinel calls the master. */
export const sentinelMaster = 'sluice'
/** After this silence a master counts as gone, ms: short, so that a test of a failover is. */
const downAfterMs = 600

export async function startRedisSentinel(options: StartOptions = {}): Promise<Service> {
  await ensureInstalled({ ...redisNeed, engine: 'redis-sentinel' })
  return startService('redis-sentinel', options, async ({ folder, run, until }) => {
    const [master, replica, sentinel] = await threePorts()
    const server = (port: number, ...args: readonly string[]): void => {
      const home = join(folder, `${port}`)
      mkdirSync(home, { recursive: true })
      run(`redis-${port}`, 'redis-server', [
        ...redisFlags(port, home),
        '--repl-diskless-sync-delay',
        '0',
        ...args,
      ])
    }
    server(master)
    server(replica, '--replicaof', `127.0.0.1 ${master}`)
    await until('the replica', async () =>
      ((await firstWords(replica, 'INFO replication\r\n')) ?? '').includes('master_link_status:up'),
    )
    // Sentinel writes what it learns into its own file.
    const file = join(folder, 'sentinel.conf')
    const monitor = [
      `port ${sentinel}`,
      'bind 127.0.0.1',
      `dir ${folder}`,
      `sentinel monitor ${sentinelMaster} 127.0.0.1 ${master} 1`,
      `sentinel down-after-milliseconds ${sentinelMaster} ${downAfterMs}`,
      `sentinel failover-timeout ${sentinelMaster} 4000`,
    ]
    writeFileSync(file, `${monitor.join('\n')}\n`)
    run('sentinel', 'redis-server', [file, '--sentinel'])
    await until('the first answer of Sentinel', () => answersPing(sentinel))
    await until('Sentinel to know the replica', async () =>
      ((await firstWords(sentinel, `SENTINEL MASTER ${sentinelMaster}\r\n`)) ?? '').includes(
        'num-slaves\r\n$1\r\n1',
      ),
    )
    const url = `redis://127.0.0.1:${sentinel}`
    return { url, env: { SLUICE_TEST_REDIS_SENTINEL: url } }
  })
}

async function threePorts(): Promise<[number, number, number]> {
  const ports = new Set<number>()
  while (ports.size < 3) ports.add(await freePort())
  return [...ports] as [number, number, number]
}

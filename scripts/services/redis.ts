/** Redis as the tests want it: loopback, a port of its own, an append-only file in a temporary folder. */
import { ensureInstalled } from './install.ts'
import { firstWords, freePort } from './port.ts'
import { type Service, type StartOptions, startService } from './service.ts'

export interface RedisOptions extends StartOptions {
  /** The same port again, after a restart. */
  readonly port?: number
  /** More flags for redis-server, as `['--maxmemory', '10mb']`. */
  readonly args?: readonly string[]
}

export const redisNeed = {
  engine: 'redis',
  commands: ['redis-server', 'redis-cli'],
  packages: ['redis-server'],
} as const

/** Starts a Redis server. Started again with the same `folder` and `port`, it comes back with its data. */
export async function startRedis(options: RedisOptions = {}): Promise<Service> {
  await ensureInstalled(redisNeed)
  return startService('redis', options, async ({ folder, run, until }) => {
    const port = options.port ?? (await freePort())
    run('redis', 'redis-server', [...redisFlags(port, folder), ...(options.args ?? [])])
    await until('its first answer', () => answersPing(port))
    const url = `redis://127.0.0.1:${port}`
    return { url, env: { SLUICE_TEST_REDIS: url } }
  })
}

export function redisFlags(port: number, folder: string): string[] {
  return ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'yes']
}

export async function answersPing(port: number): Promise<boolean> {
  return (await firstWords(port, 'PING\r\n'))?.startsWith('+PONG') ?? false
}

/** Starts the Redis of the simulator: on a socket of the file system, which costs half of loopback, and without a log on disk. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startRedis } from '../../../../scripts/services/redis.ts'

export interface SimRedis {
  /** The path of its socket. */
  readonly url: string
  stop(): Promise<void>
}

export async function startSimRedis(): Promise<SimRedis> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-fleet-redis-'))
  const url = join(folder, 'redis.sock')
  const { stop } = await startRedis({ args: ['--unixsocket', url, '--appendonly', 'no'] })
  return {
    url,
    async stop() {
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A Redis of the benchmark's own, without persistence, and what is read off it: its CPU time and what keys weigh. */
import { Redis } from 'ioredis'
import { startRedis } from '../../scripts/services/redis.ts'

export interface Server {
  readonly port: number
  readonly version: string
  empty(): Promise<void>
  /** CPU time of the server's process so far, µs. */
  cpuMicros(): Promise<number>
  /** All keys of a prefix together, as MEMORY USAGE has it. */
  bytes(prefix: string): Promise<number>
  stop(): Promise<void>
}

export async function startServer(): Promise<Server> {
  const service = await startRedis({ args: ['--appendonly', 'no'] })
  const port = Number(new URL(service.url).port)
  const admin = new Redis({ port, host: '127.0.0.1' })
  const info = async (section: string, field: string): Promise<string> =>
    new RegExp(`^${field}:(\\S+)`, 'm').exec(await admin.info(section))![1]!
  return {
    port,
    version: await info('server', 'redis_version'),
    async empty() {
      await admin.flushall()
    },
    async cpuMicros() {
      const [user, system] = await Promise.all([info('cpu', 'used_cpu_user'), info('cpu', 'used_cpu_sys')])
      return (Number(user) + Number(system)) * 1e6
    },
    async bytes(prefix) {
      const asked = admin.pipeline()
      for (const key of await admin.keys(`${prefix}*`)) asked.call('MEMORY', 'USAGE', key, 'SAMPLES', '0')
      const answers = (await asked.exec()) ?? []
      return answers.reduce((sum, [, bytes]) => sum + Number(bytes ?? 0), 0)
    },
    async stop() {
      admin.disconnect()
      await service.stop()
    },
  }
}

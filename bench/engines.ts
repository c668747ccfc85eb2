/**
 * A PostgreSQL and a Redis of a benchmark, both private and as they ship (`fsync` and `synchronous_commit` on; the log of
 * Redis flushed every second), and what they have done so far: CPU by the accounts of Linux, and counts of their own. A
 * second Redis keeps all that was answered: it flushes its log before each answer, and has two replicas.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { createClient } from '@redis/client'
import pg from 'pg'
import { startPostgres } from '../scripts/services/postgres.ts'
import { startRedis } from '../scripts/services/redis.ts'
import type { Service } from '../scripts/services/service.ts'

/** Totals since the engines began. */
export interface EngineWork {
  readonly postgresMicros: number
  /** That of replicas, too. */
  readonly redisMicros: number
  /** The length of the write-ahead log. */
  readonly walBytes: number
  /** Without those of replicas. */
  readonly redisCommands: number
}

export interface Engines {
  /** The address of a new, empty database. */
  database(name: string): Promise<string>
  readonly redis: { readonly url: string; readonly port: number }
  /** Starts the Redis with replicas, and returns its port once they have joined it. */
  durableRedis(): Promise<number>
  work(): Promise<EngineWork>
  /** One statement in a database of this server. */
  ask<Row extends object>(url: string, text: string): Promise<readonly Row[]>
  stop(): Promise<void>
}

/** CLK_TCK: Linux shows 100 ticks a second to programs on every platform that Node runs on. */
const tickMicros = 10_000

/** CPU of a process and all that it has started, µs: user and system, with those of its children that have ended. */
export function cpuMicrosOf(pid: number): number {
  const parentOf = new Map<number, number>()
  const ticksOf = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const fields = statOf(name)
    if (fields === undefined) continue
    parentOf.set(Number(name), Number(fields[1]))
    // proc(5): utime, stime, and those of children that were waited for, cutime and cstime.
    ticksOf.set(
      Number(name),
      fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0),
    )
  }
  let ticks = 0
  for (const [each, own] of ticksOf) {
    let at: number | undefined = each
    while (at !== undefined && at !== pid) at = parentOf.get(at)
    if (at === pid) ticks += own
  }
  return ticks * tickMicros
}

const portOf = ({ url }: Service): number => Number(new URL(url).port)

/** The fields behind the name, which may hold spaces; undefined for a process that has just ended. */
function statOf(pid: string): readonly string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

export async function startEngines(): Promise<Engines> {
  const postgres = await startPostgres()
  const redis = await startRedis()
  const durable: Service[] = []
  const admin = new pg.Client({ connectionString: postgres.url })
  await admin.connect()
  const redisAdmins: ReturnType<typeof createClient>[] = []
  const openAdmin = async ({ url }: Service) => {
    const client = createClient({ url })
    await client.connect()
    redisAdmins.push(client as ReturnType<typeof createClient>)
    return client
  }
  await openAdmin(redis)
  return {
    redis: { url: redis.url, port: portOf(redis) },
    async durableRedis() {
      const first = await startRedis({ args: ['--appendfsync', 'always', '--repl-diskless-sync-delay', '0'] })
      durable.push(first)
      const args = ['--replicaof', '127.0.0.1', `${portOf(first)}`]
      durable.push(...(await Promise.all([startRedis({ args }), startRedis({ args })])))
      const client = await openAdmin(first)
      // It waits until both have what was written so far.
      await client.set('begun', '1')
      if ((await client.wait(2, 10_000)) < 2) throw new Error('the replicas of Redis did not join it')
      return portOf(first)
    },
    async database(name) {
      await admin.query(`CREATE DATABASE ${name}`)
      const url = new URL(postgres.url)
      url.pathname = `/${name}`
      return url.href
    },
    async work() {
      const { rows } = await admin.query<{ bytes: string }>(
        "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn AS bytes",
      )
      const stats = await Promise.all(redisAdmins.map((client) => client.info('stats')))
      const commands = stats.map((text) => Number(/total_commands_processed:(\d+)/.exec(text)![1]))
      return {
        postgresMicros: cpuMicrosOf(postgres.pid),
        redisMicros: [redis, ...durable].reduce((sum, { pid }) => sum + cpuMicrosOf(pid), 0),
        walBytes: Number(rows[0]!.bytes),
        redisCommands: commands.reduce((sum, each) => sum + each, 0),
      }
    },
    async ask<Row extends object>(url: string, text: string) {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      try {
        return (await client.query(text)).rows as Row[]
      } finally {
        await client.end()
      }
    },
    async stop() {
      await admin.end()
      for (const client of redisAdmins) client.destroy()
      await Promise.all([postgres, redis, ...durable].map((each) => each.stop()))
    },
  }
}

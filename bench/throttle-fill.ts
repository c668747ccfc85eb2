/**
 * Very many who wait for the limits of one tenant, when their places are to be found anew. First a Redis of the
 * benchmark's own loses them all and a gateway fills it again, while another client sends a PING every millisecond,
 * answered or not: each wait begins when its PING is sent, and the same client has asked the idle Redis just before.
 * Redis, the gateway and the other client are a process each. Then the queue in memory, as at a start: where every place
 * stands as it is on record, and where a critical notification has come in between, so that all are placed twice. With
 * `--base` the code of that commit is measured in the same rounds.
 *
 *     npm run bench -- throttle-fill [--waiting 40000] [--full 500000] [--rounds 1] [--seconds 3] [--base <commit>]
 */
import { copyFileSync, rmSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseWindow } from '@sluice/limits'
import { createSystemClock } from '../packages/gateway/src/adapters/clock.ts'
import { createMemoryRegistrations } from '../packages/gateway/src/adapters/state/redis/memory-registrations.ts'
import { createRedisClient } from '../packages/gateway/src/adapters/state/redis/redis-client.ts'
import { createRedisState } from '../packages/gateway/src/adapters/state/redis/redis-state.ts'
import { createRedisThrottle } from '../packages/gateway/src/adapters/state/redis/redis-throttle.ts'
import { ThrottleQueue } from '../packages/gateway/src/adapters/state/throttle/throttle-queue.ts'
import { startRedis } from '../scripts/services/redis.ts'
import { checkOut } from '../scripts/surface/check-out.ts'
import { options } from './catalogue.ts'
import { cpuMicrosOf } from './engines.ts'
import { percentile } from './figures.ts'
import { answer, type Peer, start } from './process.ts'

/** The rates of a tenant as shipped, and how much longer each window is kept. */
const limits = { tenant: [parseWindow('100/min')], module: [parseWindow('50/min')], marginMs: 20 }
const passed = 100
const modules = 4
const agoMs = 30_000
const tenant = 'acme'
/** A fill that has not ended by then has failed, ms. */
const fillMsMax = 120_000

interface Waited {
  /** ms, sorted. */
  readonly tookMs: Float64Array
  /** So many of them were answered `BUSY`. */
  readonly refused: number
}

interface Filled {
  readonly tookMs: number
  /** How often it was begun: a claim that lapses meanwhile makes one void. */
  readonly fills: number
  /** The longest that the gateway did nothing else meanwhile. */
  readonly heldMs: number
}

interface Restored {
  readonly tookMs: number
  readonly cpuMs: number
}

/** The other client. */
function other(): void {
  let tookMs: number[] = []
  let refused = 0
  const underWay = new Set<Promise<void>>()
  answer({
    async begin(url: string) {
      const client = await createRedisClient({ url }).connect()
      async function ping(): Promise<void> {
        const sentAt = performance.now()
        try {
          await client.ping()
        } catch {
          refused += 1
        }
        tookMs.push(performance.now() - sentAt)
      }
      setInterval(() => {
        const asked = ping().finally(() => underWay.delete(asked))
        underWay.add(asked)
      }, 1)
    },
    async take(): Promise<Waited> {
      await Promise.all(underWay)
      const taken = { tookMs: Float64Array.from(tookMs).sort(), refused }
      tookMs = []
      refused = 0
      return taken
    },
  })
}

/**
 * The record: some passed a while ago, and those who wait have the places that they were given then. The critical one
 * passes now: beside it the next window admits one less.
 */
function recordOf(waiting: number, now: number) {
  const begun = now - agoMs
  const queue = new ThrottleQueue(limits)
  const counted = Array.from({ length: passed }, (_, n) => ({ module: `m${n % modules}`, at: begun }))
  for (const { module, at } of counted) queue.count(module, at)
  const waits = Array.from({ length: waiting }, (_, n) => {
    const [id, module] = [`01K${String(n).padStart(23, '0')}`, `m${n % modules}`] as const
    const { at } = queue.join(module, id, begun)
    return { id, module, at, dueAt: at }
  })
  return { now, counted, waits, critical: [{ module: 'm0', at: now }] }
}

function gateway(): void {
  const clock = createSystemClock()
  const delay = monitorEventLoopDelay({ resolution: 1 })
  let generation = 0
  let record = recordOf(0, clock.now())
  let throttle: ReturnType<typeof createRedisThrottle>

  /** Asks again where it is not answered within its deadline, as the callers of a gateway do. */
  async function answered<T>(ask: () => Promise<T> | T): Promise<T> {
    const endsAt = performance.now() + fillMsMax
    for (;;)
      try {
        return await ask()
      } catch (error) {
        if (performance.now() > endsAt) throw error
        await sleep(1)
      }
  }

  answer({
    async open(url: string) {
      throttle = createRedisThrottle({
        redis: createRedisState({ url, registrations: createMemoryRegistrations(), clock }),
        record: {
          async nextThrottleGeneration() {
            generation += 1
            return generation
          },
          entries: async () => ({
            counted: [
              ...record.counted.map((each) => ({ ...each, isCritical: false })),
              ...record.critical.map((each) => ({ ...each, isCritical: true })),
            ],
            waiting: record.waits,
          }),
          waitingTenants: async () => [tenant],
        },
        clock,
        marginMs: limits.marginMs,
        ratesOf: () => limits,
      })
      await answered(() => throttle.use(tenant, 'm0'))
    },
    prepare(waiting: number) {
      record = recordOf(waiting, clock.now())
    },
    async fill(): Promise<Filled> {
      const last = record.waits.at(-1)!
      delay.enable()
      const [begun, before] = [performance.now(), generation]
      const place = await answered(() => throttle.placeOf(tenant, last))
      const tookMs = performance.now() - begun
      const filled = { tookMs, fills: generation - before, heldMs: delay.max / 1e6 }
      delay.disable()
      delay.reset()
      if (place !== last.at) throw new Error(`the last who waits has the place ${place} and not ${last.at}`)
      return filled
    },
    /** The scripts are worked as a whole, also where nobody waits for the answer any more. */
    async newcomers(): Promise<void> {
      await Promise.resolve(throttle.use(tenant, 'm0')).catch(() => undefined)
      for (const id of ['01L', '01M']) await answered(() => throttle.pass(tenant, [{ id, module: 'm0' }]))
      // The last one is cancelled, and its place may be free.
      await answered(() => throttle.leave(tenant, [{ id: '01M', module: 'm0' }]))
      await Promise.resolve(throttle.use(tenant, 'm0')).catch(() => undefined)
    },
    /** The places as they are on record, and with a critical notification in between. */
    restore(waiting: number): readonly Restored[] {
      const { now, counted, waits, critical } = recordOf(waiting, clock.now())
      return [[], critical].map((urgent) => {
        const queue = new ThrottleQueue(limits)
        for (const { module, at } of counted) queue.count(module, at)
        const [begun, before] = [performance.now(), process.cpuUsage()]
        queue.restore(waits, urgent, now)
        const { user, system } = process.cpuUsage(before)
        return { tookMs: performance.now() - begun, cpuMs: (user + system) / 1_000 }
      })
    },
  })
}

const shown = (ms: number): string => (ms < 10_000 ? `${ms.toFixed(1)} ms` : `${(ms / 1_000).toFixed(1)} s`)

function waitedText({ tookMs, refused }: Waited): string {
  const busy = refused === 0 ? '' : `, ${refused} of them answered BUSY`
  return `p99 ${shown(percentile(tookMs, 0.99))}, longest ${shown(percentile(tookMs, 1))} (${tookMs.length} PING${busy})`
}

interface Side {
  readonly name: string
  readonly gateway: Peer
}

async function measure(): Promise<void> {
  const { waiting, full, rounds, seconds, base } = options('throttle-fill')
  const folder = base === '' ? undefined : checkOut(base)
  const redis = await startRedis()
  const admin = await createRedisClient({ url: redis.url }).connect()
  const client = start('throttle-fill.ts', 'other')
  const sides: Side[] = [{ name: 'now', gateway: start('throttle-fill.ts', 'gateway') }]
  if (folder !== undefined) {
    const file = join(folder, 'bench/throttle-fill.ts')
    copyFileSync(import.meta.filename, file)
    sides.unshift({ name: base, gateway: start(file, 'gateway') })
  }
  const cpuMicros = (): number => (process.platform === 'linux' ? cpuMicrosOf(redis.pid) : Number.NaN)

  /** The script calls of an operation, by the slow log, which has all commands: ms, in their order. */
  async function callsOf(operation: string): Promise<readonly number[]> {
    type Row = readonly [id: number, at: number, micros: number, args: readonly string[]]
    const rows = await admin.sendCommand<readonly Row[]>(['SLOWLOG', 'GET', '1000000'])
    const calls = rows.filter(([, , , args]) => args[0] === 'EVALSHA' && args.includes(operation))
    return calls.map(([, , micros]) => micros / 1_000).reverse()
  }

  async function fill({ name, gateway }: Side): Promise<void> {
    await gateway.ask('prepare', waiting)
    await admin.flushAll()
    await client.ask<Waited>('take')
    await sleep(1_000 * seconds)
    const idle = await client.ask<Waited>('take')
    await admin.sendCommand(['SLOWLOG', 'RESET'])
    const before = cpuMicros()
    const { tookMs, fills, heldMs } = await gateway.ask<Filled>('fill')
    const usedMs = (cpuMicros() - before) / 1_000
    const beside = await client.ask<Waited>('take')
    const filledAt = cpuMicros()
    await gateway.ask('newcomers')
    const behindMs = (cpuMicros() - filledAt) / 1_000
    const all = await callsOf('fill')
    const calls = Float64Array.from(all.slice(-Math.ceil(all.length / fills))).sort()
    const [uses, passes, cancellations] = await Promise.all(['use', 'pass', 'leave'].map(callsOf))
    console.log(
      `  ${name}, load ${loadavg()[0]!.toFixed(1)}: filled in ${shown(tookMs)}${fills === 1 ? '' : `, begun ${fills} times`}; ${calls.length} script calls, p50 ${shown(percentile(calls, 0.5))}, longest ${shown(percentile(calls, 1))}; CPU of Redis ${shown(usedMs)}\n` +
        `    another client meanwhile: ${waitedText(beside)}\n` +
        `    at the idle Redis before: ${waitedText(idle)}\n` +
        `    the gateway did nothing else for ${shown(heldMs)} at most\n` +
        `    the script behind it: for the usage ${shown(uses![0]!)}, for a newcomer ${shown(Math.max(...passes!))}, for the next one ${shown(passes!.at(-1)!)}; for a cancellation ${shown(cancellations!.at(-1)!)}, and for the usage behind that ${shown(uses!.at(-1)!)}; CPU of Redis ${shown(behindMs)}`,
    )
  }

  async function restore({ name, gateway }: Side): Promise<void> {
    const [asOnRecord, again] = (await gateway.ask<readonly Restored[]>('restore', full)).map(
      ({ tookMs, cpuMs }) => `${shown(tookMs)} (CPU ${shown(cpuMs)})`,
    )
    console.log(
      `  ${name}, load ${loadavg()[0]!.toFixed(1)}: all placed as on record in ${asOnRecord}, with a critical one in between in ${again}`,
    )
  }

  try {
    await client.ask('begin', redis.url)
    await admin.configSet({ 'slowlog-log-slower-than': '0', 'slowlog-max-len': '1000000' })
    for (const { gateway } of sides) await gateway.ask('open', redis.url)
    console.log(`in Redis, ${waiting} that wait`)
    for (let round = 0; round < rounds; round += 1) for (const side of sides) await fill(side)
    console.log(`in memory, ${full} that wait`)
    for (let round = 0; round < rounds; round += 1) for (const side of sides) await restore(side)
  } finally {
    admin.destroy()
    await Promise.all([client.stop(), ...sides.map(({ gateway }) => gateway.stop())])
    await redis.stop()
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  }
}

const role = process.argv[2]
if (role === 'other') other()
else if (role === 'gateway') gateway()
else await measure()

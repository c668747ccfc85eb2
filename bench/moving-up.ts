/**
 * Very many who wait for one limit over all recipients of a tenant: what a cancellation costs until the first of them
 * has the place and until all have moved up, how long newcomers and the event loop are held up meanwhile, whether any
 * newcomer overtakes; and the same of a policy that became wider at a start.
 *
 *     npm run bench -- moving-up [--waiting 10000]
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadConfig } from '../packages/gateway/src/config/load.ts'
import { createGateway, type Gateway } from '../packages/gateway/src/gateway.ts'
import type { Draft, Notification } from '../packages/gateway/src/model.ts'
import { options } from './catalogue.ts'

const { waiting } = options('moving-up')
const caller = { tenant: 'default', module: 'default' }
const batch = 100
/** Absent in the first process; the second one opens the folder in which this file is. */
const linePath = process.env.SLUICE_BENCH_LINE
const folder = linePath === undefined ? mkdtempSync(join(tmpdir(), 'sluice-bench-')) : dirname(linePath)
let serial = 0

function draft(): Draft {
  serial += 1
  return {
    to: { id: `p${serial}`, email: `p${serial}@example.com` },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content: { subject: `${serial}`, text: `${serial}` },
  }
}

async function open(perTenSeconds: number): Promise<Gateway> {
  writeFileSync(
    join(folder, 'policy.yaml'),
    `version: 1\nmaxDelay: 30d\nlimits: [{ name: all, for: any, per: [tenant], max: [${perTenSeconds}/10s], over: delay }]\n`,
  )
  writeFileSync(
    join(folder, 'sluice.yaml'),
    'store: sqlite:./sluice.db\npolicy: ./policy.yaml\nlog: { level: silent }\n' +
      'tenants: { default: { rate: unlimited, modules: unlimited, queue: 10000000, waiting: 10000000, bytes: 10GiB } }\n',
  )
  const gateway = await createGateway(loadConfig({ cwd: folder, env: {} }))
  await gateway.startStages()
  return gateway
}

async function post(gateway: Gateway): Promise<Notification> {
  const [result] = await gateway.gate.admit({ caller, drafts: [draft()] })
  return result!.notification
}

const dueAt = async (gateway: Gateway, { id }: { readonly id: string }): Promise<number> =>
  (await gateway.store.notification('default', id))!.dueAt

/** Nothing is waited for longer than this, ms. */
const waitMsMax = 100_000

/** Waits until it is so; returns ms since `from`, or undefined where it takes too long. */
async function until(isSo: () => Promise<boolean>, from = performance.now()): Promise<number | undefined> {
  const began = performance.now()
  while (!(await isSo())) {
    if (performance.now() - began > waitMsMax) return undefined
    await sleep(2)
  }
  return performance.now() - from
}

const msText = (ms: number | undefined): string =>
  ms === undefined ? `not within ${waitMsMax / 1_000} s` : `after ${ms.toFixed(0)} ms`
const secondsText = (ms: number | undefined): string =>
  ms === undefined ? msText(ms) : `after ${(ms / 1_000).toFixed(1)} s`

interface Meanwhile {
  readonly stop: () => Promise<void>
  readonly newcomers: Notification[]
  readonly tookMs: number[]
}

/** Somebody new every 20 ms, one after the other. */
function newcomersOf(gateway: Gateway): Meanwhile {
  const newcomers: Notification[] = []
  const tookMs: number[] = []
  let stopped = false
  const work = (async () => {
    while (!stopped) {
      const from = performance.now()
      newcomers.push(await post(gateway))
      tookMs.push(performance.now() - from)
      await sleep(20)
    }
  })()
  return {
    newcomers,
    tookMs,
    async stop() {
      stopped = true
      await work
    },
  }
}

const most = (of: readonly number[]): string => Math.max(0, ...of).toFixed(0)

/** Looks that must find the same before it counts: as many as there are in a second on an idle machine. */
const sameLooks = 20

/**
 * Counts newcomers that have an earlier instant than the last who waits. While they move, an instant that was read is
 * outdated when the next one is: only what look after look finds unchanged has overtaken. Looks are counted and not time,
 * which passes while this process waits for a core.
 */
async function overtakers(gateway: Gateway, before: Waiting, newcomers: readonly Notification[]) {
  let seen = ''
  for (let same = 0; same < sameLooks; await sleep(50)) {
    const last = await dueAt(gateway, before)
    const instants = await Promise.all(newcomers.map((each) => dueAt(gateway, each)))
    const earlier = newcomers.filter((_, index) => instants[index]! < last)
    if (earlier.length === 0) return 0
    const now = [last, ...instants].join()
    same = now === seen ? same + 1 : 0
    seen = now
    if (same === sameLooks - 1) return earlier.length
  }
  return 0
}

interface Waiting {
  readonly id: string
  readonly dueAt: number
}

const newcomersText = (
  { tookMs }: Meanwhile,
  lag: ReturnType<typeof monitorEventLoopDelay>,
  overtaken: number,
): string =>
  `newcomers: ${tookMs.length}, the slowest ${most(tookMs)} ms; event loop p99 ${(lag.percentile(99) / 1e6).toFixed(0)} ms, most ${(lag.max / 1e6).toFixed(0)} ms; ${overtaken} of them have overtaken`

async function cancelOne(): Promise<readonly Waiting[]> {
  const gateway = await open(1)
  const line: Waiting[] = []
  const begun = performance.now()
  for (let count = 0; count < waiting; count += batch) {
    const results = await gateway.gate.admit({ caller, drafts: Array.from({ length: batch }, draft) })
    for (const { notification } of results)
      if (notification.status === 'scheduled') line.push({ id: notification.id, dueAt: notification.dueAt })
  }
  console.log(`${serial} accepted in ${((performance.now() - begun) / 1_000).toFixed(1)} s`)
  // The notifications before it leave meanwhile.
  const [first, second] = line.slice(200)
  const last = line.at(-1)!
  const lag = monitorEventLoopDelay({ resolution: 1 })
  lag.enable()
  const meanwhile = newcomersOf(gateway)
  await sleep(200)
  const from = performance.now()
  await gateway.gate.cancel('default', first!.id)
  const firstMs = await until(async () => (await dueAt(gateway, second!)) < second!.dueAt, from)
  const allMs = await until(async () => (await dueAt(gateway, last)) < last.dueAt, from)
  await meanwhile.stop()
  lag.disable()
  console.log(
    `a cancellation: the first who waits has the place ${msText(firstMs)}, all ${line.length} have moved ${secondsText(allMs)}`,
  )
  console.log(newcomersText(meanwhile, lag, await overtakers(gateway, last, meanwhile.newcomers)))
  const stopping = performance.now()
  await gateway.stop()
  console.log(`a stop took ${(performance.now() - stopping).toFixed(0)} ms`)
  return line
}

/** In a process of its own, which holds nothing but the gateway. */
async function startWider(line: readonly Waiting[]): Promise<void> {
  const lag = monitorEventLoopDelay({ resolution: 1 })
  lag.enable()
  const opening = performance.now()
  const gateway = await open(2)
  const openedMs = performance.now() - opening
  const meanwhile = newcomersOf(gateway)
  // A notification that is due sooner may leave before it moves.
  const soon = Date.now() + 15_000
  const from = performance.now()
  const hasMoved = (before: Waiting, byMs: number): Promise<number | undefined> =>
    until(async () => (await dueAt(gateway, before)) < before.dueAt - byMs, from)
  const later = line.filter(({ dueAt }) => dueAt > soon)
  const last = later.at(-1)!
  const [firstMs, nextMs] = await Promise.all([hasMoved(later[0]!, 0), hasMoved(later[200]!, 60_000)])
  const allMs = await hasMoved(last, 0.4 * (last.dueAt - Date.now()))
  await meanwhile.stop()
  lag.disable()
  console.log(
    `a policy twice as wide: opened in ${openedMs.toFixed(0)} ms; since the start the first has moved ${msText(firstMs)}, the 200th ${msText(nextMs)}, the last ${secondsText(allMs)}`,
  )
  const rss = (process.memoryUsage.rss() / 2 ** 20).toFixed(0)
  const overtaken = await overtakers(gateway, last, meanwhile.newcomers)
  console.log(`${newcomersText(meanwhile, lag, overtaken)}; RSS ${rss} MB`)
  await gateway.stop()
}

if (linePath === undefined) {
  try {
    const line = await cancelOne()
    const file = join(folder, 'line.json')
    writeFileSync(file, JSON.stringify(line))
    const { status } = spawnSync(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
      stdio: 'inherit',
      env: { ...process.env, SLUICE_BENCH_LINE: file },
    })
    process.exitCode = status ?? 1
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
} else await startWider(JSON.parse(readFileSync(linePath, 'utf8')))

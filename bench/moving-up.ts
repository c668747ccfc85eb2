/**
 * Very many who wait for one limit over all recipients of a tenant: what a cancellation costs until the first of them
 * has the place and until all have moved up, how long newcomers and the event loop are held up meanwhile, whether any
 * newcomer overtakes; and the same of a policy that became wider at a start.
 *
 *     npm run bench -- moving-up [--waiting 10000]
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadConfig } from '../packages/gateway/src/config/load.ts'
import { createGateway, type Gateway } from '../packages/gateway/src/gateway.ts'
import type { Draft, Notification } from '../packages/gateway/src/model.ts'
import { options } from './catalogue.ts'

const { waiting } = options('moving-up')
const caller = { tenant: 'default', module: 'default' }
const batch = 100
const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
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
  if (!result!.ok) throw result!.error
  return result!.notification
}

const dueAt = async (gateway: Gateway, { id }: { readonly id: string }): Promise<number> =>
  (await gateway.store.notification('default', id))!.dueAt

/** Until it is so, ms. */
async function until(isSo: () => Promise<boolean>): Promise<number> {
  const from = performance.now()
  while (!(await isSo())) {
    if (performance.now() - from > 100_000) return Number.POSITIVE_INFINITY
    await sleep(2)
  }
  return performance.now() - from
}

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

async function overtakers(gateway: Gateway, before: Notification, newcomers: readonly Notification[]) {
  const last = await dueAt(gateway, before)
  let count = 0
  for (const newcomer of newcomers) if ((await dueAt(gateway, newcomer)) < last) count += 1
  return count
}

try {
  let gateway = await open(1)
  const all: Notification[] = []
  const begun = performance.now()
  for (let count = 0; count < waiting; count += batch) {
    const results = await gateway.gate.admit({ caller, drafts: Array.from({ length: batch }, draft) })
    for (const result of results) if (result.ok) all.push(result.notification)
  }
  console.log(`${all.length} accepted in ${((performance.now() - begun) / 1_000).toFixed(1)} s`)
  const line = all.filter(({ status }) => status === 'scheduled')
  // The notifications before it leave meanwhile.
  const [first, second] = line.slice(200)
  const last = line.at(-1)!
  const lag = monitorEventLoopDelay({ resolution: 1 })

  lag.enable()
  let meanwhile = newcomersOf(gateway)
  await sleep(200)
  const from = performance.now()
  await gateway.gate.cancel('default', first!.id)
  const firstMs = await until(async () => (await dueAt(gateway, second!)) < second!.dueAt)
  await until(async () => (await dueAt(gateway, last)) < last.dueAt)
  const allMs = performance.now() - from
  await meanwhile.stop()
  lag.disable()
  console.log(
    `a cancellation: the first who waits has the place after ${firstMs.toFixed(0)} ms, all ${line.length} have moved after ${(allMs / 1_000).toFixed(1)} s`,
  )
  console.log(
    `newcomers: ${meanwhile.tookMs.length}, the slowest ${most(meanwhile.tookMs)} ms; event loop p99 ${(lag.percentile(99) / 1e6).toFixed(0)} ms, most ${(lag.max / 1e6).toFixed(0)} ms; ${await overtakers(gateway, last, meanwhile.newcomers)} of them have overtaken`,
  )
  const stopping = performance.now()
  await gateway.stop()
  console.log(`a stop took ${(performance.now() - stopping).toFixed(0)} ms`)

  lag.reset()
  lag.enable()
  const opening = performance.now()
  gateway = await open(2)
  meanwhile = newcomersOf(gateway)
  const promised = second!.dueAt
  const widerMs = await until(async () => (await dueAt(gateway, second!)) < promised - 60_000)
  const halfMs = await until(
    async () => (await dueAt(gateway, last)) < Date.now() + 0.6 * (last.dueAt - Date.now()),
  )
  await meanwhile.stop()
  lag.disable()
  console.log(
    `a policy twice as wide: the first has moved ${widerMs.toFixed(0)} ms after the start (${(performance.now() - opening).toFixed(0)} ms in all), the last after ${(halfMs / 1_000).toFixed(1)} s more`,
  )
  console.log(
    `newcomers: ${meanwhile.tookMs.length}, the slowest ${most(meanwhile.tookMs)} ms; event loop p99 ${(lag.percentile(99) / 1e6).toFixed(0)} ms, most ${(lag.max / 1e6).toFixed(0)} ms; ${await overtakers(gateway, last, meanwhile.newcomers)} of them have overtaken; RSS ${(process.memoryUsage.rss() / 2 ** 20).toFixed(0)} MB`,
  )
  await gateway.stop()
} finally {
  rmSync(folder, { recursive: true, force: true })
}

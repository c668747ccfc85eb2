/**
 * The cost of a pool. First the way of a lease alone: found, taken, judged and given back, with 1, 50 and 500 accounts
 * of the same rate together, so that all of them are asked. Then a whole gateway in virtual time (a store in memory, what is
 * due is read, fired at the limits, rendered, sent and settled) beside the sandbox's own ceiling, which is a loop that
 * does nothing but call it. Rounds are interleaved, medians are printed.
 *
 *     npm run bench -- dispatch [--rounds 5] [--messages 20000]
 */

import { createRandom } from '../packages/gateway/src/adapters/random.ts'
import { loadConfig } from '../packages/gateway/src/config/load.ts'
import { Pool } from '../packages/gateway/src/delivery/pools/pool.ts'
import { createGateway, virtualParts } from '../packages/gateway/src/gateway.ts'
import type { Account, Message } from '../packages/gateway/src/ports.ts'
import { createSandbox } from '../packages/gateway/src/providers/sandbox/adapter.ts'
import { createVirtualClock } from '../packages/gateway/src/simulation/clock.ts'
import { options } from './catalogue.ts'
import { median } from './figures.ts'

const { rounds, messages } = options('dispatch')
const start = Date.UTC(2026, 10, 21)
const sizes = [1, 50, 500] as const
const leases = 200_000

/** Nanoseconds a lease, while the pool is used to its full rate. */
function leaseNanos(accounts: number): number {
  const clock = createVirtualClock(start)
  const perSecond = 100_000
  const max = perSecond / accounts
  const pool = new Pool({
    channel: 'email',
    provider: createSandbox({ clock }),
    accounts: Array.from({ length: accounts }, (_, index) => ({
      account: { id: `a${index}`, options: {} },
      windows: [{ max, windowMs: 1_000, text: `${max}/s` }],
      rate: `${max}/s`,
      concurrencyMax: 100_000,
    })),
    marginMs: 0,
    adaptive: { min: 1, slowdown: 2 },
    now: start,
  })
  let done = 0
  let now = start
  const begun = process.hrtime.bigint()
  while (done < leases) {
    const taken = pool.lease(now, 128)
    for (const lease of taken) {
      lease.judge(now, { outcome: 'delivered' }, 1)
      lease.end()
    }
    done += taken.length
    if (taken.length === 0) now = Math.max(now + 1, pool.freeAt(now) ?? now)
  }
  return Number(process.hrtime.bigint() - begun) / done
}

/** Messages a second through a whole gateway, in wall time, from the queue to the settlement. */
async function gatewayPerSecond(accounts: number): Promise<number> {
  const clock = createVirtualClock(start)
  const list = Array.from({ length: accounts }, (_, index) => ({ id: `a${index}`, rate: 'unlimited' }))
  const config = loadConfig({ env: {}, cwd: import.meta.dirname })
  const email = config.pools.find(({ channel }) => channel === 'email')!
  const account = email.accounts[0]!
  const free = { text: 'unlimited', windows: [] }
  const tenant = { ...config.tenants.default, rate: free, modules: free, queueMax: 1e9 }
  const gateway = await createGateway(
    {
      ...config,
      store: { kind: 'sqlite', path: ':memory:' },
      tenants: { default: tenant, byId: new Map() },
      pools: [{ ...email, accounts: list.map(({ id }) => ({ ...account, account: { id, options: {} } })) }],
      log: { level: 'silent' },
    },
    { clock, ...virtualParts(() => 0.5), random: createRandom() },
  )
  await gateway.startStages()
  const drafts = Array.from({ length: messages }, (_, index) => ({
    to: { id: `p${index}`, email: 'p@example.com' },
    channel: 'email' as const,
    category: 'security',
    priority: 'normal' as const,
    content: { subject: 's', text: 't' },
    sendAt: start + 60_000,
  }))
  const caller = { tenant: 'default', module: 'default' }
  for (let from = 0; from < messages; from += 500) {
    let open = true
    const admitted = gateway.gate.admit({ caller, drafts: drafts.slice(from, from + 500) }).finally(() => {
      open = false
    })
    while (open) await clock.settle()
    await admitted
  }
  await clock.runUntil(start + 57_000)
  const begun = process.hrtime.bigint()
  await clock.runUntil(start + 120_000)
  const tookMs = Number(process.hrtime.bigint() - begun) / 1e6
  const { delivered } = gateway.ledger.counts()
  if (delivered !== messages) throw new Error(`${delivered} of ${messages} were delivered`)
  const stopping = gateway.stop()
  await clock.settle()
  await stopping
  return (messages / tookMs) * 1_000
}

async function ceilingPerSecond(): Promise<number> {
  const clock = createVirtualClock(start)
  const sandbox = createSandbox({ clock })
  const account: Account = { id: 'a', options: {} }
  const signal = new AbortController().signal
  const begun = process.hrtime.bigint()
  for (let index = 0; index < messages; index += 1) {
    const message = { id: `${index}`, to: { id: 'p' } } as Message
    await sandbox.send(message, account, signal)
  }
  return messages / (Number(process.hrtime.bigint() - begun) / 1e9)
}

leaseNanos(50)
const nanos = new Map<number, number[]>(sizes.map((size) => [size, []]))
const perSecond = new Map<number, number[]>(sizes.map((size) => [size, []]))
const ceiling: number[] = []
for (let round = 0; round < rounds; round += 1) {
  for (const size of sizes) {
    nanos.get(size)!.push(leaseNanos(size))
    perSecond.get(size)!.push(await gatewayPerSecond(size))
  }
  ceiling.push(await ceilingPerSecond())
}

const shown = (values: readonly number[]): string => Math.round(median(values)).toLocaleString('en')
for (const size of sizes) {
  const ratio = median(nanos.get(size)!.map((figure, round) => figure / nanos.get(1)![round]!))
  console.log(
    `a lease, ${size} accounts: ${shown(nanos.get(size)!)} ns · ${ratio.toFixed(2)} × that of one account`,
  )
}
for (const size of sizes) {
  console.log(`released, sent and settled, ${size} accounts: ${shown(perSecond.get(size)!)} messages/s`)
}
console.log(`the sandbox called in a loop: ${shown(ceiling)} calls/s`)

/**
 * Measures the cost of account slots for Redis: so many processes lease tokens of 500 accounts of 1,000 a second, slot by slot, and
 * Redis is asked for the processor time that it used. Needs SLUICE_TEST_REDIS:
 * `npm run services -- run redis -- node --conditions=sluice-source packages/limits/bench/slots.ts`.
 */
import { fork } from 'node:child_process'
import process from 'node:process'
import { parseArgs } from 'node:util'
import { Redis } from 'ioredis'
import { createSlotLeases, redisSlots } from '../src/index.ts'

const { values } = parseArgs({
  options: {
    accounts: { type: 'string', default: '500' },
    workers: { type: 'string', default: '4' },
    seconds: { type: 'string', default: '10' },
    slotMs: { type: 'string', default: '20' },
    windows: { type: 'string', default: '1000/s' },
  },
})
const [accounts, workers, seconds, slotMs] = [
  Number(values.accounts),
  Number(values.workers),
  Number(values.seconds),
  Number(values.slotMs),
]
const url = process.env.SLUICE_TEST_REDIS
if (url === undefined) throw new Error('SLUICE_TEST_REDIS names no Redis: see the head of this file')
const client = new Redis(url, { enableAutoPipelining: true })

if (process.send === undefined) await lead()
else await work()

async function lead(): Promise<void> {
  const ready = Array.from({ length: workers }, (_, index) => {
    const child = fork(import.meta.filename, [...process.argv.slice(2)], {
      execArgv: ['--conditions=sluice-source'],
      env: { ...process.env, SLOTS_PREFIX: `bench:${process.pid}:`, SLOTS_WORKER: String(index) },
    })
    const first = new Promise<void>((resolve) => child.once('message', () => resolve()))
    return { child, first }
  })
  await Promise.all(ready.map(({ first }) => first))
  const results = ready.map(
    ({ child }) =>
      new Promise<Result>((resolve) => child.once('message', (result) => resolve(result as Result))),
  )
  const before = await cpuSeconds()
  const startMs = performance.now()
  for (const { child } of ready) child.send('go')
  const all = await Promise.all(results)
  const tookS = (performance.now() - startMs) / 1_000
  const cpu = (await cpuSeconds()) - before
  const granted = all.reduce((sum, result) => sum + result.granted, 0)
  const calls = all.reduce((sum, result) => sum + result.calls, 0)
  console.log(
    `${accounts} accounts of ${values.windows}, ${workers} processes, slots of ${slotMs} ms, ${tookS.toFixed(1)} s`,
  )
  console.log(
    `Redis: ${((100 * cpu) / tookS).toFixed(1)} % of one core, ${((1e6 * cpu) / calls).toFixed(0)} µs a call`,
  )
  console.log(`${(calls / tookS).toFixed(0)} calls/s, ${(granted / tookS).toFixed(0)} tokens/s granted`)
  client.disconnect()
}

/** Reads the CPU time of the Redis process, its children not included. */
async function cpuSeconds(): Promise<number> {
  const info = await client.info('cpu')
  const read = (name: string) => Number(new RegExp(`${name}:([0-9.]+)`).exec(info)![1])
  return read('used_cpu_user') + read('used_cpu_sys')
}

interface Result {
  readonly granted: number
  readonly calls: number
}

async function work(): Promise<void> {
  const store = redisSlots(client, { prefix: process.env.SLOTS_PREFIX!, deadlineMs: 1_000 })
  const leases = createSlotLeases({ store, slotMs })
  // Twice a worker's share, so that what others leave is taken.
  const want = Math.ceil((2 * 1_000 * slotMs) / 1_000 / workers)
  const asks = Array.from({ length: accounts }, (_, index) => ({
    account: `account-${index}`,
    windows: values.windows,
    want,
  }))
  await leases.lease(asks)
  process.send!('ready')
  await new Promise((resolve) => process.once('message', resolve))
  const endMs = performance.now() + seconds * 1_000
  let granted = 0
  let calls = 0
  while (performance.now() < endMs) {
    const answer = await leases.lease(asks)
    calls += 1
    for (const lease of answer) granted += lease.granted
    await new Promise((resolve) => setTimeout(resolve, answer[0]!.endsInMs))
  }
  process.send!({ granted, calls })
  client.disconnect()
  process.disconnect()
}

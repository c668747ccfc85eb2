/**
 * Proves the rates of shared accounts over several processes, as long as it is asked to:
 *
 *   npm run services -- run redis -- node --conditions=sluice-source \
 *     packages/gateway/test/adapters/state/redis/account-fleet/main.ts --seconds 60 [--kills 4] [--flushes 1] [--accounts 500]
 *
 * It prints for each rate the worst window and the share that was used, and what Redis spent. With `--accounts` there are
 * so many of 1,000/s besides. It ends with 1 where a window is over, or below 95 % was used without a kill or a flush.
 */
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { parseWindow } from '@sluice/limits'
import { Redis } from 'ioredis'
import { type CalledAccount, Fleet, machineMs } from './fleet.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    kills: { type: 'string', default: '0' },
    flushes: { type: 'string', default: '0' },
    accounts: { type: 'string', default: '0' },
    members: { type: 'string', default: '4' },
  },
})
const [seconds, kills, flushes, more, members] = [
  values.seconds,
  values.kills,
  values.flushes,
  values.accounts,
  values.members,
].map(Number) as [number, number, number, number, number]

const accounts: readonly CalledAccount[] = [
  { id: 'ten', rate: ['10/s'] },
  { id: 'hundred', rate: ['100/s'] },
  { id: 'thousand', rate: ['1000/s'] },
  { id: 'forty', rate: ['40/10s'] },
  { id: 'hourly', rate: ['500/36s'] },
  { id: 'both', rate: ['30/s', '200/10s'] },
  ...Array.from({ length: more }, (_, index) => ({ id: `big${index}`, rate: ['1000/s'] })),
]
const url = process.env.SLUICE_TEST_REDIS!
const admin = new Redis(url)
const fleet = new Fleet({ url, prefix: `proof:${process.pid}:`, accounts, askMs: 2, callMs: 10 })
await fleet.open()
for (let member = 0; member < members; member += 1) fleet.start()
// The birth of the state, and the first calls of the long windows.
await fleet.ready(11_000)
await admin.config('RESETSTAT')
const cpuBefore = await cpu()
const from = machineMs()
const steps = [
  ...Array.from({ length: kills }, (_, index) => ({ at: ((index + 1) / (kills + 1)) * seconds, kill: true })),
  ...Array.from({ length: flushes }, (_, index) => ({
    at: ((index + 0.5) / flushes) * seconds,
    kill: false,
  })),
].sort((a, b) => a.at - b.at)
for (const { at, kill } of steps) {
  await sleep(Math.max(0, at * 1_000 - (machineMs() - from)))
  if (kill) {
    fleet.kill()
    fleet.start()
  } else await admin.flushall()
  console.log(`${at.toFixed(1)} s: ${kill ? 'killed the judge, started another process' : 'FLUSHALL'}`)
}
await sleep(Math.max(0, seconds * 1_000 - (machineMs() - from)))
const to = machineMs()
const spent = (await cpu()) - cpuBefore
const stats = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(await admin.info('commandstats'))
await fleet.close()

let isWell = true
for (const { id, rate } of accounts.slice(0, 6 + Math.min(more, 3))) {
  const used = fleet.between(id, from, to)
  const may = Math.min(...rate.map(parseWindow).map(({ max, windowMs }) => (max / windowMs) * (to - from)))
  const share = used / may
  if (share < 0.95 && kills + flushes === 0) isWell = false
  console.log(
    `${id.padEnd(9)} ${rate.join(', ').padEnd(16)} ${used} calls, ${(100 * share).toFixed(1)} % used`,
  )
}
const over = fleet.over()
console.log(over.length === 0 ? '0 windows over' : over.join('\n'))
for (const [name, counts] of fleet.counts) console.log(name, JSON.stringify(counts))
const [, calls, usec] = stats ?? []
console.log(
  `Redis: ${((100 * spent) / ((to - from) / 1_000)).toFixed(1)} % of a core; scripts ${calls} calls, ${(Number(usec) / Number(calls)).toFixed(0)} µs each, ${((100 * Number(usec)) / 1e3 / (to - from)).toFixed(1)} % of a core`,
)
admin.disconnect()
process.exitCode = isWell && over.length === 0 ? 0 : 1

/** Seconds of CPU that Redis has spent. */
async function cpu(): Promise<number> {
  const info = await admin.info('cpu')
  const read = (field: string) => Number(new RegExp(`^${field}:(.*)`, 'm').exec(info)![1])
  return read('used_cpu_user') + read('used_cpu_sys')
}

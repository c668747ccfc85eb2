/** One process of the fleet: it calls its accounts as often as it may, and writes each call to the sink as it makes it. */
import { connect } from 'node:net'
import process from 'node:process'
import { parseWindow } from '@sluice/limits'
import { createSystemClock } from '../../../../../src/adapters/clock.ts'
import { createMemoryRegistrations } from '../../../../../src/adapters/state/redis/memory-registrations.ts'
import { createRedisAccountSlots } from '../../../../../src/adapters/state/redis/redis-account-slots.ts'
import { createRedisState } from '../../../../../src/adapters/state/redis/redis-state.ts'
import { createFleetAccounts } from '../../../../../src/delivery/accounts/fleet-accounts.ts'
import type { Lease } from '../../../../../src/delivery/pools/lease.ts'
import { Pool } from '../../../../../src/delivery/pools/pool.ts'
import type { AccountRecord, SendResult, UseRecord } from '../../../../../src/ports.ts'
import { createScripted, delivered } from '../../../../delivery/scripted.ts'
import type { FromParent, Terms, ToParent } from './fleet.ts'

const terms = JSON.parse(process.argv[2]!) as Terms
const clock = createSystemClock()
const sink = connect(terms.sinkPort, '127.0.0.1').setNoDelay()
const tellParent = (message: ToParent): void => void process.send!(message)

let isJudge = false
let isStopped = false
/** Accounts whose calls are answered 429 from now on, with the seconds of their Retry-After. */
const limited = new Map<string, number>()
const onRecord = new Map<string, UseRecord>()
const writing: (() => void)[] = []
let reading: (() => void) | undefined

process.on('message', (message: FromParent) => {
  if (message.kind === 'judge') isJudge = true
  else if (message.kind === 'written') writing.shift()?.()
  else if (message.kind === 'limit') limited.set(message.account, message.seconds)
  else if (message.kind === 'stop') isStopped = true
  else {
    onRecord.clear()
    for (const [id, use] of message.records) onRecord.set(id, use)
    reading?.()
  }
})

/** Reads the use on record in the process that stands for the store. */
async function readUse(): Promise<ReadonlyMap<string, UseRecord>> {
  await new Promise<void>((resolve) => {
    reading = resolve
    tellParent({ kind: 'read' })
  })
  return onRecord
}

let away = 0
const accounts = createFleetAccounts({
  slots: createRedisAccountSlots({
    redis: createRedisState({
      url: terms.url,
      registrations: createMemoryRegistrations(),
      clock,
      deadlineMs: 200,
      prefix: terms.prefix,
    }),
  }),
  clock,
  member: terms.member,
  isJudge: () => isJudge,
  readUse,
  callMs: 2_000,
  onError: () => {
    away += 1
  },
})

const pool: Pool = new Pool({
  channel: 'email',
  provider: createScripted(() => delivered).provider,
  accounts: terms.accounts.map(({ id, rate, concurrency }) => ({
    account: { id, options: {} },
    windows: rate.map(parseWindow),
    rate: rate.join(', '),
    concurrencyMax: concurrency ?? 5_000,
  })),
  marginMs: 20,
  shedding: terms.shedding ?? false,
  now: clock.now(),
  stateOf: accounts.ofPool('email/test'),
  keep: (of, account) => {
    const record: AccountRecord = of.record(account, clock.now())
    writing.push(() => account.recorded())
    tellParent({ kind: 'write', account: record.account, use: record.use })
  },
})

/** Instants at which what waits has arrived. */
const waiting: number[] = []
const waitMax = 5_000
let arrivedUntil = clock.now()

/** Lets arrive what is due, and gives up what has waited too long. */
function arrive(now: number, perSecond: number): void {
  const everyMs = 1_000 / perSecond
  let count = 0
  for (; arrivedUntil + everyMs <= now; arrivedUntil += everyMs) {
    waiting.push(arrivedUntil)
    count += 1
  }
  if (count > 0) pool.shedding.asked(now, count)
  while (waiting.length > 0 && waiting[0]! < now - waitMax) waiting.shift()
}

let disarm: (() => void) | undefined
let calls = 0
let refused = 0

function pump(): void {
  if (isStopped) return
  const now = clock.now()
  const { arrivalsPerSecond } = terms
  if (arrivalsPerSecond !== undefined) arrive(now, arrivalsPerSecond)
  const leases = pool.lease(now, arrivalsPerSecond === undefined ? 256 : waiting.length)
  waiting.splice(0, leases.length)
  // The right to send and the recipients' limits are asked meanwhile.
  if (leases.length > 0) setTimeout(() => leases.forEach(call), terms.askMs)
  disarm?.()
  const free = arrivalsPerSecond === undefined || waiting.length > 0 ? pool.freeAt(now) : undefined
  if (free !== undefined) disarm = clock.at(Math.max(free, leases.length > 0 ? now + 1 : now), pump)
}

function call(lease: Lease): void {
  if (!lease.mayCall(clock.now())) {
    refused += 1
    lease.undo()
    waiting.unshift(clock.now())
    return
  }
  const seconds = limited.get(lease.account.id)
  // The monotonic clock of the machine: the same in all processes.
  const micros = process.hrtime.bigint() / 1_000n
  sink.write(`${lease.account.id} ${micros} ${seconds === undefined ? 'delivered' : 'refused'}\n`)
  calls += 1
  const result: SendResult =
    seconds === undefined
      ? delivered
      : { outcome: 'rate_limited', retryAfter: String(seconds), detail: '429' }
  setTimeout(() => {
    lease.judge(clock.now(), result, terms.callMs)
    lease.end()
    pump()
  }, terms.callMs)
}

pool.onNews(() => {
  disarm?.()
  disarm = clock.at(clock.now(), pump)
})
pump()
// Arrivals come in clusters of 5 ms.
if (terms.arrivalsPerSecond !== undefined) setInterval(pump, 5)
process.on('disconnect', () => process.exit())
setInterval(() => tellParent({ kind: 'counts', calls, refused, away }), 500).unref()

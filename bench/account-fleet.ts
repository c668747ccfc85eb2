/**
 * Accounts that four processes call over one Redis, at a witness that counts every rolling window by code of its own. It
 * ends with 1 where a line does not hold:
 *
 * - `rates`: no window over, and at least 95 % of each rate used at saturation; `kills` the same with kills of the process
 *   that judges and a FLUSHALL, without the share;
 * - `storm`: behind the first 429 an account gets only the calls that are on their way, and those of a slot;
 * - `share`: with a tenth of the accounts blocked, calls fall by 10 % ± 2, at saturation and at four fifths of it;
 * - `cost`: the tokens of 500 accounts of 1,000/s cost Redis at most 10 % of a core;
 * - `probes`: one probe at a time in many openings of a breaker; a thousand take some six minutes alone.
 *
 *     npm run services -- run redis -- npm run bench -- account-fleet [--seconds 20] [--only rates,cost] [--openings 1000]
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseWindow } from '@sluice/limits'
import { Redis } from 'ioredis'
import { createSystemClock } from '../packages/gateway/src/adapters/clock.ts'
import { createMemoryRegistrations } from '../packages/gateway/src/adapters/state/redis/memory-registrations.ts'
import { createRedisAccountSlots } from '../packages/gateway/src/adapters/state/redis/redis-account-slots.ts'
import { createRedisState } from '../packages/gateway/src/adapters/state/redis/redis-state.ts'
import type { SlotRoster } from '../packages/gateway/src/ports/account-slots.ts'
import {
  type CalledAccount,
  Fleet,
  machineMs,
  type Terms,
} from '../packages/gateway/test/adapters/state/redis/account-fleet/fleet.ts'
import { options } from './catalogue.ts'

const { seconds, only, openings } = options('account-fleet')
const url = process.env.SLUICE_TEST_REDIS
if (url === undefined)
  throw new Error('no engine: npm run services -- run redis -- npm run bench -- account-fleet')
const admin = new Redis(url)
const members = 4
/** The margin by which each window is kept longer leaves 50 of 52 slots. */
const usedMin = 0.95
const callMs = 10

/** 50,000 an hour is 500 in 36 s here, so that the window is full within the run. */
const accounts: readonly CalledAccount[] = [
  { id: 'ten', rate: ['10/s'] },
  { id: 'hundred', rate: ['100/s'] },
  { id: 'thousand', rate: ['1000/s'] },
  { id: 'forty', rate: ['40/10s'] },
  { id: 'hourly', rate: ['500/36s'] },
  { id: 'both', rate: ['30/s', '200/10s'] },
]

interface Line {
  readonly text: string
  readonly holds: boolean
}

async function startFleet(
  called: readonly CalledAccount[],
  warmMs: number,
  terms: Partial<Terms> = {},
): Promise<Fleet> {
  const prefix = `bench:${process.pid}:${called[0]!.id}:${machineMs()}:`
  const fleet = new Fleet({ url: url!, prefix, accounts: called, askMs: 2, callMs, ...terms })
  await fleet.open()
  for (let member = 0; member < members; member += 1) fleet.start()
  await fleet.ready(warmMs)
  return fleet
}

async function rates(): Promise<Line> {
  const fleet = await startFleet(accounts, 12_000)
  const from = machineMs()
  await sleep(1_000 * Math.max(45, seconds))
  const to = machineMs()
  await fleet.close()
  const over = fleet.over()
  const shares = accounts.map(({ id, rate }) => {
    // Whole windows from a first call on: an account of ten seconds makes all its calls at the beginning of each.
    const windows = rate.map(parseWindow)
    const longestMs = Math.max(...windows.map(({ windowMs }) => windowMs))
    const begin = fleet.firstSince(id, from) ?? to
    const lengthMs = Math.max(1, Math.floor((to - begin) / longestMs)) * longestMs
    const may = Math.min(...windows.map(({ max, windowMs }) => max / windowMs)) * lengthMs
    return { rate: rate.join(' and '), share: fleet.between(id, begin, begin + lengthMs) / may }
  })
  return {
    text: `${over.length} windows over; used ${shares.map(({ rate, share }) => `${percent(share)} of ${rate}`).join(', ')}`,
    holds: over.length === 0 && shares.every(({ share }) => share >= usedMin),
  }
}

async function kills(): Promise<Line> {
  const fleet = await startFleet(accounts, 2_500)
  for (let kill = 0; kill < 3; kill += 1) {
    await sleep((seconds * 1_000) / 4)
    fleet.kill()
    fleet.start()
    if (kill === 1) await admin.flushall()
  }
  await sleep((seconds * 1_000) / 4)
  await fleet.close()
  const over = fleet.over()
  const calls = [...fleet.calls.values()].reduce((sum, { length }) => sum + length, 0)
  return {
    text: `${over.length} windows over in ${calls} calls, with 3 kills and a FLUSHALL${over.map((each) => `; ${each}`).join('')}`,
    holds: over.length === 0 && calls > 0,
  }
}

async function storm(): Promise<Line> {
  const fleet = await startFleet([{ id: 'storm', rate: ['400/s'] }], 2_500)
  const told = machineMs()
  fleet.tell({ kind: 'limit', account: 'storm', seconds: 30 })
  await sleep(5_000)
  await fleet.close()
  const [first, last] = [Math.min(...fleet.refused), Math.max(...fleet.calls.get('storm')!)]
  const behindMs = last - first
  return {
    text: `${fleet.refused.length} calls were refused, the last ${behindMs.toFixed(0)} ms behind the first; then none for ${((told + 5_000 - last) / 1_000).toFixed(1)} s`,
    // The call of 10 ms, the question of another process within a slot, and its tokens of a slot.
    holds: fleet.refused.length > 0 && behindMs <= callMs + 2 * 20 + 50,
  }
}

/** Clients send more than the accounts may carry, then four fifths of it. */
async function share(): Promise<Line> {
  const lines = [await shareAt(1.5), await shareAt(0.8)]
  return {
    text: lines.map(({ text }) => text).join('; '),
    holds: lines.every(({ holds }) => holds),
  }
}

async function shareAt(load: number): Promise<Line> {
  const called = Array.from({ length: 20 }, (_, index) => ({ id: `a${load}-${index}`, rate: ['25/s'] }))
  const fleet = await startFleet(called, 12_000, {
    shedding: true,
    arrivalsPerSecond: (500 * load) / members,
  })
  /** An account at its rate makes its calls in bursts: it is measured from the beginning of one to that of another. */
  async function perSecond(ids: readonly string[]): Promise<number> {
    const from = machineMs()
    await sleep(Math.max(40, seconds) * 1_000)
    const to = machineMs()
    await sleep(2_000)
    return ids.reduce((sum, id) => {
      const [begin, end] = [fleet.firstSince(id, from)!, fleet.firstSince(id, to)!]
      return sum + (1_000 * fleet.between(id, begin, end)) / (end - begin)
    }, 0)
  }
  const [ids, blocked] = [called.map(({ id }) => id), 2]
  const before = await perSecond(ids)
  for (const account of ids.slice(0, blocked)) fleet.tell({ kind: 'limit', account, seconds: 600 })
  await sleep(1_000)
  const after = await perSecond(ids.slice(blocked))
  await fleet.close()
  const over = fleet.over()
  return {
    text: `at ${load} of the rate ${before.toFixed(0)} calls a second, and ${after.toFixed(0)} with ${blocked} of ${ids.length} accounts blocked: ${percent(after / before)}, ${over.length} windows over`,
    holds: Math.abs(after / before - 0.9) <= 0.02 && over.length === 0,
  }
}

/** Tokens alone: so many calls could not be made on one machine. */
async function cost(): Promise<Line> {
  const count = 500
  const clock = createSystemClock()
  const roster: SlotRoster = {
    id: 'bench',
    names: Array.from({ length: count }, (_, index) => `a${index}`),
    concurrency: Array.from({ length: count }, () => 5_000),
    rules: [{ windowMs: 1_020, width: 1, run: 52, max: Array.from({ length: count }, () => 1_000) }],
  }
  const redis = createRedisState({
    url: url!,
    registrations: createMemoryRegistrations(),
    clock,
    deadlineMs: 2_000,
    prefix: `bench:${process.pid}:cost:`,
  })
  const slots = createRedisAccountSlots({ redis })
  let bornAt = 0
  let granted = 0
  async function ask(member: number): Promise<void> {
    const answer = await slots.ask({
      pool: 'email/bench',
      member: `m${member}`,
      slotMs: 20,
      silentMs: 17_000,
      coldMs: 600,
      probeMs: 20_000,
      isJudge: false,
      roster,
      bornAt,
      lastVerdict: 0,
      lastResults: 0,
      results: undefined,
      withUses: false,
      // 20 a slot and account are 1,000/s; a fourth of them for each process.
      asks: roster.names.map((_, account) => ({ account, want: 5, kept: 0, busy: 0, late: 0, back: [] })),
      verdicts: [],
      remembered: [],
      untold: [],
      blocks: [],
      abandoned: [],
      probing: [],
      covered: [],
      fills: [],
    })
    bornAt = answer.bornAt
    granted += answer.grants.reduce((sum, { tokens }) => sum + tokens, 0)
  }
  async function askAll(questions: number): Promise<void> {
    for (let question = 0; question < questions; question += 1) {
      await Promise.all(Array.from({ length: members }, (_, member) => ask(member)))
      await sleep(20)
    }
  }
  // The birth of the state lasts longer than a window.
  await askAll(100)
  granted = 0
  const questions = 50 * 10
  const before = await cpuSeconds()
  await askAll(questions)
  const each = ((await cpuSeconds()) - before) / (questions * members)
  redis.close()
  return {
    text: `${(each * 1e6).toFixed(0)} µs of CPU a question, ${percent(each * members * 50)} of a core for ${members} processes with a question each 20 ms; ${granted} tokens`,
    holds: each * members * 50 <= 0.1 && granted > 0,
  }
}

async function probes(): Promise<Line> {
  const file = '../packages/gateway/test/adapters/state/redis/account-probes.test.ts'
  const { status, stdout } = spawnSync(
    process.execPath,
    ['--conditions=sluice-source', '--test', '--test-reporter=tap', join(import.meta.dirname, file)],
    { env: { ...process.env, SLUICE_OPENINGS: String(openings) }, encoding: 'utf8' },
  )
  const counts = /# (seed .*)/.exec(stdout)?.[1]
  return { text: counts ?? stdout.slice(-2_000), holds: status === 0 && counts !== undefined }
}

/** The CPU that Redis has spent, s. */
async function cpuSeconds(): Promise<number> {
  const info = await admin.info('cpu')
  const read = (field: string): number => Number(new RegExp(`^${field}:(.*)`, 'm').exec(info)![1])
  return read('used_cpu_user') + read('used_cpu_sys')
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`
}

const parts = { rates, kills, storm, share, cost, probes }
const wanted = only === '' ? Object.keys(parts) : only.split(',')
for (const name of wanted) {
  const part = parts[name as keyof typeof parts]
  if (part === undefined) throw new Error(`--only takes ${Object.keys(parts).join(', ')}`)
  const { text, holds } = await part()
  if (!holds) process.exitCode = 1
  console.log(`${name.padEnd(7)}${holds ? 'holds' : 'DOES NOT HOLD'}: ${text}`)
}
admin.disconnect()

/**
 * A process that holds one contestant and drives it: `contestant.ts <name>`. It builds the state that the load meets,
 * keeps 64 calls in flight, and plays the patterns that an approximate limiter falls for.
 */
import { performance } from 'node:perf_hooks'
import { Redis } from 'ioredis'
import { percentile } from '../figures.ts'
import { answer } from '../process.ts'
import { type Contestant, type Rule, ruleSets, type SetName, type Take } from './rules.ts'

export interface Load {
  readonly perSecond: number
  readonly p99Ms: number
  readonly calls: number
  readonly admitted: number
  readonly clientCpuMicros: number
}

export interface Behaviour {
  /** The most that passed within one second, at a limit of 10 a second. */
  readonly worstWindow: number
  /** How many of 64 simultaneous calls passed a limit of 10. */
  readonly raced: number
}

const name = process.argv[2]!
const modules = ['./over-redis.js', './in-memory.js']
const lists = await Promise.all(
  modules.map(async (file) => (await import(file)) as { contestants: Record<string, Contestant> }),
)
const contestant = lists.flatMap(({ contestants }) => contestants[name] ?? [])[0]!

let clients: Redis[] = []
let take: Take = () => false
let subjects: readonly string[] = []

interface Opening {
  readonly port?: number
  readonly prefix: string
  readonly set: SetName
  readonly keys: number
}

async function openWith(port: number | undefined, prefix: string, rules: readonly Rule[]): Promise<Take> {
  if (port === undefined) return contestant.open({ redis: undefined, prefix, rules })
  const redis = new Redis({ port, host: '127.0.0.1', enableAutoPipelining: true })
  clients.push(redis)
  return contestant.open({ redis, prefix, rules })
}

async function open({ port, prefix, set, keys }: Opening): Promise<void> {
  for (const client of clients) client.disconnect()
  clients = []
  // In an order of its own, each as often as the others: a minimum distance is then never in the way.
  subjects = Array.from({ length: keys }, (_, index) => `user:${(index * 7_919) % keys}`)
  take = await openWith(port, prefix, ruleSets[set])
}

const inFlight = 64

/** Keeps 64 calls in flight until `more` says no. Answers how many passed. */
async function drive(
  more: (call: number) => boolean,
  took?: (ms: number) => void,
): Promise<[number, number]> {
  let [calls, admitted] = [0, 0]
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (more(calls)) {
        const subject = subjects[calls % subjects.length]!
        calls += 1
        const begun = performance.now()
        if (await take(subject)) admitted += 1
        took?.(performance.now() - begun)
      }
    }),
  )
  return [calls, admitted]
}

/** Every subject once, `times` times, no closer than the minimum distance. Answers how many passed. */
async function fill({ times }: { times: number }): Promise<number> {
  let admitted = 0
  for (let time = 0; time < times; time += 1) {
    admitted += (await drive((call) => call < subjects.length))[1]
    await sleep(5)
  }
  return admitted
}

async function load({ seconds }: { seconds: number }): Promise<Load> {
  const timesMs: number[] = []
  const lead = performance.now() + 150
  await drive(() => performance.now() < lead)
  const cpu = process.cpuUsage()
  const begun = performance.now()
  const end = begun + seconds * 1_000
  const [calls, admitted] = await drive(
    () => performance.now() < end,
    (ms) => timesMs.push(ms),
  )
  const perSecond = (calls / (performance.now() - begun)) * 1_000
  const { user, system } = process.cpuUsage(cpu)
  const p99Ms = percentile(
    timesMs.sort((a, b) => a - b),
    0.99,
  )
  return { perSecond, p99Ms, calls, admitted, clientCpuMicros: (user + system) / calls }
}

interface Laps {
  readonly seconds: number
  readonly set: SetName
  readonly events: number
}

/**
 * In memory: five laps from each fresh start, without a clock in between, so that what is measured is the limiter.
 * Of those that answer with promises, 64 are awaited at once, since some of them wait for a timer each.
 */
async function laps({ seconds, set, events }: Laps): Promise<Load> {
  let [spentMs, calls, admitted, cpuMicros] = [0, 0, 0, 0]
  while (spentMs < seconds * 1_000) {
    take = await openWith(undefined, '', ruleSets[set])
    await fill({ times: events })
    for (let lap = 0; lap < 5; lap += 1) {
      const cpu = process.cpuUsage()
      const begun = performance.now()
      let asked: Promise<boolean>[] = []
      for (const subject of subjects) {
        const answered = take(subject)
        if (typeof answered !== 'boolean') asked.push(answered)
        else if (answered) admitted += 1
        if (asked.length === inFlight) {
          admitted += (await Promise.all(asked)).filter(Boolean).length
          asked = []
        }
      }
      admitted += (await Promise.all(asked)).filter(Boolean).length
      spentMs += performance.now() - begun
      const { user, system } = process.cpuUsage(cpu)
      cpuMicros += user + system
      calls += subjects.length
      // A new lap may not begin within the minimum distance of the last.
      await sleep(4)
    }
  }
  const perSecond = (calls / spentMs) * 1_000
  return { perSecond, p99Ms: Number.NaN, calls, admitted, clientCpuMicros: cpuMicros / calls }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, Math.max(0, ms)))

/**
 * Ten a second, and three ways to get more: the end of one fixed window and the beginning of the next; all at once
 * and then whatever drips back; the end of a calendar second, which the next one forgets as it goes on.
 */
async function behave({ port, prefix }: { port?: number; prefix: string }): Promise<Behaviour> {
  const rule = { stream: 'all', max: 10, windowMs: 1_000 }
  const fresh = (pattern: string) => openWith(port, prefix + pattern, [rule])
  const onTheSecond = () => sleep(1_000 - (Date.now() % 1_000) + 15)
  const play = async (pattern: string, plan: readonly (readonly [atMs: number, calls: number])[]) => {
    const ask = await fresh(pattern)
    const passed: (readonly [from: number, to: number])[] = []
    await onTheSecond()
    const begun = performance.now()
    for (const [atMs, calls] of plan) {
      await sleep(begun + atMs - performance.now())
      for (let call = 0; call < calls; call += 1) {
        const from = performance.now()
        if (await ask('somebody')) passed.push([from, performance.now()])
      }
    }
    return densest(passed)
  }
  const drip = (from: number, to: number): [number, number][] =>
    Array.from({ length: Math.floor((to - from) / 10) }, (_, index) => [from + 10 * index, 1])
  const worst = await Promise.all([
    play('edge:', [
      [0, 1],
      [865, 9],
      [1_045, 12],
    ]),
    play('drip:', [[0, 12], ...drip(20, 1_900)]),
    play('calendar:', [[925, 12], ...drip(990, 2_000)]),
  ])
  const ask = await fresh('race:')
  const raced = await Promise.all(Array.from({ length: 64 }, () => ask('somebody')))
  return { worstWindow: Math.max(...worst), raced: raced.filter(Boolean).length }
}

/** Surely within one second: from before the first call to after the last one. */
function densest(passed: readonly (readonly [number, number])[]): number {
  let [most, first] = [0, 0]
  for (const [index, [, to]] of passed.entries()) {
    while (to - passed[first]![0] >= 1_000) first += 1
    most = Math.max(most, index - first + 1)
  }
  return most
}

answer({ open, fill, load, laps, behave }, async () => {
  for (const client of clients) client.disconnect()
})

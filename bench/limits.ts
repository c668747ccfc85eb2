/**
 * The library beside what people use: over Redis and in memory, in speed, in what it costs Redis, in bytes, and in what
 * it lets through when somebody is out to get more. Every contestant is a process of its own; in each round all of them
 * are measured once, one after the other, on the same Redis. Writes results/limits.json and the tables of
 * docs/reference/limits-benchmarks.md.
 *
 *     npm run bench -- limits [--rounds 5] [--seconds 0.8] [--keys 3000] [--minutes 6] [--quick]
 *
 * No round is begun that would end after so many minutes: on a busy machine there are fewer, and the record says so.
 */
import { loadavg } from 'node:os'
import { options } from './catalogue.ts'
import { save } from './figures.ts'
import type { Behaviour, Load } from './limits/contestant.ts'
import { comparisons, type Found, type Measured, notes } from './limits/findings.ts'
import { inMemory, overRedis, type SetName, setNames } from './limits/rules.ts'
import { type Server, startServer } from './limits/server.ts'
import { writeTables } from './limits/tables.ts'
import { type Peer, start } from './process.ts'

const given = options('limits')
const { quick } = given
const wanted = quick ? { ...given, rounds: 1, seconds: 0.2, keys: 500 } : given
const { seconds, keys } = wanted
/** The number of events of each subject when the load begins. */
const events = 5
const floors: readonly string[] = overRedis.filter((name) => name.startsWith('floor'))
const onlyR1: readonly string[] = [...floors, 'bottleneck']
const setsOf = (name: string): readonly SetName[] => (onlyR1.includes(name) ? ['R1'] : setNames)

const found: Found = { redis: '', loads: {}, bytes: {}, behaviour: {} }

function keep(name: string, set: SetName, measured: Measured): void {
  found.loads[name] = { ...found.loads[name], [set]: [...(found.loads[name]?.[set] ?? []), measured] }
}

async function measureOverRedis(
  server: Server,
  peers: ReadonlyMap<string, Peer>,
  set: SetName,
): Promise<void> {
  for (const [name, peer] of peers) {
    if (!setsOf(name).includes(set)) continue
    await server.empty()
    await peer.ask('open', { port: server.port, prefix: 'bench:', set, keys })
    await peer.ask('fill', { times: events })
    const before = await server.cpuMicros()
    const load = await peer.ask<Load>('load', { seconds })
    const redisCpuMicros = ((await server.cpuMicros()) - before) / load.calls
    check(name, set, load)
    keep(name, set, { ...load, redisCpuMicros })
  }
}

/** One that refuses measures something else. */
function check(name: string, set: SetName, { calls, admitted }: Load): void {
  if (admitted < calls * 0.9) throw new Error(`${name}, ${set}: only ${admitted} of ${calls} were admitted`)
}

const subjects = 50

/** All contestants at once: what they weigh does not depend on the time. */
async function weigh(server: Server, name: string, peer: Peer): Promise<void> {
  for (const set of setsOf(name)) {
    const prefix = `${name}-${set}:`
    await peer.ask('open', { port: server.port, prefix, set, keys: subjects })
    const at: number[] = []
    for (const times of [10, 90]) {
      const admitted = await peer.ask<number>('fill', { times })
      if (admitted < times * subjects)
        throw new Error(`${name}, ${set}: ${admitted} events are not ${times} each`)
      at.push((await server.bytes(prefix)) / subjects)
    }
    found.bytes[name] = { ...found.bytes[name], [set]: { at10: at[0]!, at100: at[1]! } }
  }
}

/** It sets a timer a call and one a subject, and would take most of the time there is. */
const keysFor = (name: string): number => (name === 'bottleneck' ? Math.min(keys, 200) : keys)

async function measureInMemory(set: SetName, name: string): Promise<void> {
  const peer = start('limits/contestant.ts', name)
  await peer.ask('open', { prefix: '', set, keys: keysFor(name) })
  await peer.ask('laps', { seconds: 0.05, set, events })
  const load = await peer.ask<Load>('laps', { seconds: seconds / 2, set, events })
  check(name, set, load)
  keep(name, set, { ...load, redisCpuMicros: Number.NaN })
  await peer.stop()
}

const begun = performance.now()
/** Where the time went: a busy machine stretches what waits, too. */
function say(what: string): void {
  const seconds = ((performance.now() - begun) / 1_000).toFixed(0)
  console.log(`  ${what} after ${seconds} s, load average ${loadavg()[0]!.toFixed(1)}`)
}

const hasTimeFor = (ms: number): boolean => performance.now() - begun + ms <= wanted.minutes * 60_000

let rounds = 0
const server = await startServer()
found.redis = server.version
const peers = new Map(overRedis.map((name) => [name as string, start('limits/contestant.ts', name)]))
try {
  // Each pattern takes two seconds of waiting, so all of them at once.
  const memories = inMemory.map((name) => [name, start('limits/contestant.ts', name)] as const)
  await Promise.all([
    ...[...peers]
      .filter(([name]) => !floors.includes(name))
      .map(async ([name, peer]) => {
        await peer.ask('open', { port: server.port, prefix: `${name}:`, set: 'R1', keys: 1 })
        found.behaviour[name] = await peer.ask<Behaviour>('behave', { port: server.port, prefix: `${name}:` })
      }),
    ...memories.map(async ([name, peer]) => {
      found.behaviour[name] = await peer.ask<Behaviour>('behave', { prefix: '' })
      await peer.stop()
    }),
  ])
  say('behaviour')
  await Promise.all([...peers].map(([name, peer]) => !floors.includes(name) && weigh(server, name, peer)))
  say('bytes')
  let longestMs = 0
  while (rounds < wanted.rounds && (rounds === 0 || hasTimeFor(longestMs))) {
    const startedMs = performance.now()
    for (const set of setNames) {
      await measureOverRedis(server, peers, set)
      for (const name of inMemory) if (setsOf(name).includes(set)) await measureInMemory(set, name)
    }
    rounds += 1
    longestMs = Math.max(longestMs, performance.now() - startedMs)
    say(`round ${rounds} of ${wanted.rounds}`)
  }
} finally {
  await Promise.all([...peers.values()].map((peer) => peer.stop()))
  await server.stop()
}
save({
  name: 'limits',
  title: 'The library beside what people use, over Redis and in memory.',
  rounds,
  comparisons: comparisons(found),
  notes: notes(found, { seconds, keys, events, quick }),
  detail: found,
})
writeTables()

/**
 * Gateways over PostgreSQL and Redis, one, two and three of them, with the engines on the same machine, from POST to settled:
 * beside the stack that a team would join together today (contestants/stack.js), with the durability of its Redis as it ships
 * and with that of ours, and beside two queues on PostgreSQL that do their part of the work only. All of them are warm, and each round measures one right after the other, in an order that
 * changes from round to round. The CPU of a message is that of the gateways, of PostgreSQL and of Redis, each by itself.
 *
 *     npm run bench -- fleet [--rounds 5] [--messages 6000] [--minutes 5] [--base <commit>] [--only gateways_2,stack,floor_2]
 *
 * `floor_2` and `unlimited_2` are two processes that do the least for a message, with and without limits
 * (contestants/floor.ts); they run where they are named.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { checkOut } from '../scripts/surface/check-out.ts'
import { options } from './catalogue.ts'
import { type EngineWork, startEngines } from './engines.ts'
import { save } from './figures.ts'
import type { Loaded } from './load.ts'
import { type Peer, start } from './process.ts'
import { type Phase, settle, settleAt } from './settle.ts'

const { rounds: roundsMax, messages, minutes, base, only } = options('fleet')
const endsAt = performance.now() + minutes * 60_000
const root = join(import.meta.dirname, '..')

type Measured = Phase & EngineWork

interface Round {
  readonly single: Measured
  readonly batch: Measured
}

interface Contestant {
  readonly name: string
  readonly hosts: readonly Peer[]
  send(given: { readonly first: number; readonly total: number; readonly batch?: number }): Promise<Phase>
  /** Throws unless the record agrees that all of so many messages are delivered. */
  check?(sent: number): Promise<void>
  sent: number
  readonly rounds: Round[]
}

const load = start('load.ts')
const engines = await startEngines()

async function openGateways(name: string, count: number, folder = root): Promise<Contestant> {
  const store = await engines.database(name)
  const given = { policy: 'wide', shared: { store, state: `${engines.redis.url}?prefix=${name}:` } }
  const hosts: Peer[] = []
  // One after the other: the first makes the schema.
  for (let n = 0; n < count; n += 1) {
    hosts.push(start(join(folder, 'bench/host.ts'), 'gateway.ts', JSON.stringify(given)))
    await hosts[n]!.ask('port')
  }
  const path = '/api/v1/notifications'
  return {
    ...{ name, hosts, sent: 0, rounds: [] },
    send: ({ batch, ...each }) =>
      settle(load, hosts, {
        ...each,
        ...(batch === undefined ? { path } : { path: `${path}/batch`, batch }),
      }),
    async check(sent) {
      const [row] = await engines.ask<{ delivered: string; others: string; live: string }>(
        store,
        `SELECT count(*) FILTER (WHERE status = 6) AS delivered, count(*) FILTER (WHERE status <> 6) AS others,
          (SELECT count(*) FROM sluice.live) AS live FROM sluice.outcome`,
      )
      const { delivered, others, live } = row!
      if (Number(delivered) !== sent || Number(others) > 0 || Number(live) > 0)
        throw new Error(`${name}: of ${sent} messages ${delivered} are delivered on record, ${live} wait`)
    },
  }
}

async function openFloor(name: string): Promise<Contestant> {
  const shared = { store: await engines.database(name), state: engines.redis.url }
  const hosts: Peer[] = []
  for (let n = 0; n < 2; n += 1) {
    hosts.push(start('host.ts', 'floor.ts', JSON.stringify({ shared, isLimited: name === 'floor_2' })))
    await hosts[n]!.ask('port')
  }
  const path = '/notifications'
  return {
    ...{ name, hosts, sent: 0, rounds: [] },
    send: ({ batch, ...each }) =>
      settle(load, hosts, {
        ...each,
        ...(batch === undefined ? { path } : { path: `${path}/batch`, batch }),
      }),
  }
}

async function openStack(name: string): Promise<Contestant> {
  const given =
    name === 'stack'
      ? { redisPort: engines.redis.port }
      : { redisPort: await engines.durableRedis(), replicas: 2 }
  const host = start('host.ts', 'stack.js', JSON.stringify(given))
  const path = '/notifications'
  return {
    ...{ name, hosts: [host], sent: 0, rounds: [] },
    send: ({ batch, ...each }) =>
      settle(load, host, { ...each, ...(batch === undefined ? { path } : { path: `${path}/batch`, batch }) }),
  }
}

async function openQueue(name: string): Promise<Contestant> {
  const url = await engines.database(name.replace('-', '_'))
  const host = start('host.ts', `${name}.js`, JSON.stringify({ url }))
  return {
    ...{ name, hosts: [host], sent: 0, rounds: [] },
    send: (given) => settleAt([host], given, () => host.ask<Loaded>('run', { ...given, connections: 64 })),
  }
}

async function measure(of: Contestant, total: number, batch?: number): Promise<Measured> {
  const before = await engines.work()
  const first = of.sent
  of.sent += total
  const phase = await of.send({ first, total, ...(batch === undefined ? {} : { batch }) })
  const after = await engines.work()
  const each = (key: keyof EngineWork): number => (after[key] - before[key]) / total
  return {
    ...phase,
    postgresMicros: each('postgresMicros'),
    redisMicros: each('redisMicros'),
    walBytes: each('walBytes'),
    redisCommands: each('redisCommands'),
  }
}

const line = ({ single, batch }: Round): string =>
  [single, batch]
    .map(
      ({ perSecond, cpuMicros, postgresMicros, redisMicros, walBytes, redisCommands, latencyP50Ms }) =>
        `${perSecond.toFixed(0)}/s, ${cpuMicros.toFixed(0)} + ${postgresMicros.toFixed(0)} + ${redisMicros.toFixed(0)} µs, ${walBytes.toFixed(0)} B of log, ${redisCommands.toFixed(2)} calls of Redis, p50 ${latencyP50Ms.toFixed(0)} ms`,
    )
    .join(' · ')

const folder = base === '' ? undefined : checkOut(base)
const all: Contestant[] = []
try {
  const openers: Readonly<Record<string, () => Contestant | Promise<Contestant>>> = {
    ...Object.fromEntries(
      [1, 2, 3].map((count) => [`gateways_${count}`, () => openGateways(`gateways_${count}`, count)]),
    ),
    ...(folder === undefined ? {} : { before_2: () => openGateways('before_2', 2, folder) }),
    ...Object.fromEntries(['stack', 'stack_durable'].map((name) => [name, () => openStack(name)])),
    'graphile-worker': () => openQueue('graphile-worker'),
    'pg-boss': () => openQueue('pg-boss'),
    floor_2: () => openFloor('floor_2'),
    unlimited_2: () => openFloor('unlimited_2'),
  }
  const floors = ['floor_2', 'unlimited_2']
  const named = only === '' ? Object.keys(openers).filter((name) => !floors.includes(name)) : only.split(',')
  const unknown = named.find((name) => openers[name] === undefined)
  if (unknown !== undefined)
    throw new Error(`no contestant ${unknown}: there are ${Object.keys(openers).join(', ')}`)
  for (const name of named) all.push(await openers[name]!())
  for (const each of all) {
    // To warm up. V8 goes on compiling for some 60,000 messages of a process; more of them changed no ratio (bounds.md).
    await measure(each, messages * each.hosts.length)
    await measure(each, messages * each.hosts.length, 100)
  }
  for (let n = 0, tookMs = 0; n < roundsMax; n += 1) {
    if (n > 0 && performance.now() + tookMs > endsAt) break
    const begun = performance.now()
    for (let k = 0; k < all.length; k += 1) {
      const each = all[(n + k) % all.length]!
      const round = { single: await measure(each, messages), batch: await measure(each, messages * 2, 100) }
      each.rounds.push(round)
      console.log(`  ${n + 1} ${each.name}: ${line(round)}`)
    }
    tookMs = performance.now() - begun
  }
  for (const each of all) await each.check?.(each.sent)
} finally {
  await Promise.all(all.flatMap(({ hosts }) => hosts.map((host) => host.stop())))
  await load.stop()
  await engines.stop()
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
}

const of = (name: string): Contestant => all.find((each) => each.name === name)!
const figures = (name: string, figure: (round: Round) => number): readonly number[] =>
  of(name).rounds.map(figure)
const two = 'gateways_2'
const rivals = {
  stack: 'Fastify + rate-limiter-flexible + BullMQ',
  stack_durable: 'the same over a Redis that flushes each write and has two replicas',
  'graphile-worker': 'graphile-worker, the queue only',
  'pg-boss': 'pg-boss, the queue only',
  gateways_1: 'one gateway',
} as const

function compare(
  what: string,
  unit: string,
  figure: (round: Round) => number,
  rival: keyof typeof rivals,
  ours = two,
) {
  return {
    ...{ what, unit, ours: figures(ours, figure) },
    against: { name: rivals[rival], figures: figures(rival, figure) },
  }
}
const single = (round: Round): number => round.single.perSecond
const batch = (round: Round): number => round.batch.perSecond
const one = 'two gateways, single requests, settled'
const many = 'two gateways, in batches of 100, settled'
const perSecond = 'messages/s'
/** Messages a second of gateways whose engines have cores of their own: bound by the CPU of the gateways. */
const alone = (count: number) => (round: Round) => (count * 1e6) / round.single.cpuMicros
const cpu = (name: string, what: string) =>
  (['single', 'batch'] as const).flatMap((kind) => {
    const of = kind === 'single' ? 'a single message' : 'a message in a batch'
    return [
      { what: `CPU of ${what}, ${of}`, unit: 'µs', ours: figures(name, (round) => round[kind].cpuMicros) },
      {
        what: `CPU of PostgreSQL, ${of}, ${what}`,
        unit: 'µs',
        ours: figures(name, (round) => round[kind].postgresMicros),
      },
      {
        what: `CPU of Redis, ${of}, ${what}`,
        unit: 'µs',
        ours: figures(name, (round) => round[kind].redisMicros),
      },
    ]
  })
if (base === '' && only === '')
  save({
    name: 'fleet',
    title:
      'Gateways over one PostgreSQL and one Redis, POST → limits → record → queue → provider → settled and on record, with the engines and the load generator on the same machine.',
    rounds: all[0]!.rounds.length,
    comparisons: [
      { ...compare(one, perSecond, single, 'stack'), goal: { min: 1 } },
      { ...compare(many, perSecond, batch, 'stack'), goal: { min: 1.2 } },
      { ...compare(one, perSecond, single, 'stack_durable'), goal: { min: 1.5 } },
      compare(many, perSecond, batch, 'stack_durable'),
      { ...compare(one, perSecond, single, 'graphile-worker'), goal: { min: 2.5 } },
      { ...compare(one, perSecond, single, 'pg-boss'), goal: { min: 1.5 } },
      compare(many, perSecond, batch, 'graphile-worker'),
      compare(many, perSecond, batch, 'pg-boss'),
      compare('two gateways on these cores, single requests', perSecond, single, 'gateways_1'),
      compare('two gateways on these cores, in batches', perSecond, batch, 'gateways_1'),
      compare(
        'three gateways on these cores, single requests',
        perSecond,
        single,
        'gateways_1',
        'gateways_3',
      ),
      compare('three gateways on these cores, in batches', perSecond, batch, 'gateways_1', 'gateways_3'),
      {
        what: 'two gateways with the engines on cores of their own, by their CPU',
        unit: perSecond,
        ours: figures(two, alone(2)),
        against: { name: rivals.gateways_1, figures: figures('gateways_1', alone(1)) },
        goal: { min: 1.8 },
      },
      ...cpu(two, 'two gateways'),
      ...cpu('gateways_1', 'one gateway'),
      ...cpu('stack', 'the stack'),
      {
        what: 'write-ahead log of PostgreSQL, a single message, two gateways',
        unit: 'bytes',
        ours: figures(two, (round) => round.single.walBytes),
      },
      {
        what: 'commands of Redis, a single message, two gateways',
        unit: 'commands',
        ours: figures(two, (round) => round.single.redisCommands),
      },
    ],
    notes: [
      `${messages} single messages, ${messages * 2} in batches of 100, 64 connections shared by the gateways, 10,000 people of 10 tenants. All were settled exactly once, by one of the gateways; at the end the record has each of them as delivered and nothing that waits.`,
      'Ours is on disk in PostgreSQL before it answers (`fsync` and `synchronous_commit` on). The stack loses up to a second with the machine (`appendfsync everysec`); `appendfsync always` and a `WAIT` for two replicas before each answer make it keep what it accepted, too. The two queues take no HTTP, ask no limit and keep no record of a delivery; they add and work in one process, graphile-worker with a local queue of 500 and completions in batches, pg-boss with batches of 200 and four workers.',
      'CPU is what Linux accounts to the processes of each engine, with those that have ended; what the idle gateways of the other fleets ask meanwhile is in it. Commands of Redis count those within scripts.',
    ],
  })

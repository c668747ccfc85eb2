/**
 * Very many notifications that wait in PostgreSQL: the speed of accepting and of releasing at a gateway over that record,
 * beside one over an empty record on the same server, in turn; how long each takes to start, and its memory. The record is
 * filled by the server itself, with copies of one notification that a gateway has accepted.
 *
 *     npm run bench -- fleet-waiting [--rounds 5] [--waiting 1000000] [--rows 2000]
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { options } from './catalogue.ts'
import type { Admission } from './contestants/gateway.ts'
import { startEngines } from './engines.ts'
import { save } from './figures.ts'
import type { Cost } from './host.ts'
import { type Peer, start } from './process.ts'
import { type Released, release } from './release.ts'

const { rounds, waiting, rows } = options('fleet-waiting')
const hourMs = 3_600_000
const recipients = 100_000
const engines = await startEngines()

/** Gateways that run. */
const hosts = new Set<Peer>()
const stop = async (host: Peer): Promise<void> => {
  if (hosts.delete(host)) await host.stop()
}

/** Accepts the one to be copied, anew where a start on a busy machine refuses it as one to be tried again. */
async function admitted(host: Peer, one: Admission): Promise<void> {
  for (let tries = 1; ; tries += 1)
    try {
      await host.ask('admit', one)
      return
    } catch (error) {
      if (tries === 10) throw error
      await sleep(1_000)
    }
}

interface Side {
  readonly host: Peer
  readonly startMs: number
  readonly found: Released[]
  /** CPU of PostgreSQL for a notification, from its acceptance to its settlement, µs. */
  readonly postgresMicros: number[]
  first: number
}

async function open(name: string, store: string): Promise<Side> {
  const begun = performance.now()
  const shared = { store, state: `${engines.redis.url}?prefix=${name}:` }
  const host = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide', shared }))
  hosts.add(host)
  await host.ask('port')
  return { host, startMs: performance.now() - begun, found: [], postgresMicros: [], first: 1 }
}

/**
 * Copies the one notification on record: recipients and instants differ, spread over two days that begin in two hours. Each
 * row has the columns that the gateway wrote of its own.
 */
const copies = (id: string, from: number, to: number): string => `
  WITH copied AS (
    INSERT INTO sluice.notification (id, seq, tenant, recipient, category, job, shared, created_at, body, first)
      SELECT left(n.id, 10) || lpad(upper(to_hex(i)), 16, '0'), nextval('sluice.acceptance'), 'tenant-' || i % 10,
        'user-' || i % ${recipients}, n.category, n.job, n.shared, n.created_at,
        replace(n.body::text, n.recipient, 'user-' || i % ${recipients})::json, n.first
      FROM sluice.notification n, generate_series(${from}, ${to}) i WHERE n.id = '${id}'
      RETURNING id, seq, tenant, recipient, shared)
  INSERT INTO sluice.live (id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts, waits, policy)
    SELECT n.id, n.seq, n.tenant, n.recipient, l.channel, l.priority, n.shared, l.bytes, l.status, l.kind, l.rev,
      l.due_at + (n.seq * 7919) % ${48 * hourMs}, l.attempts, l.waits, l.policy
    FROM copied n, sluice.live l WHERE l.id = '${id}';`
const tallies = (id: string): string => `
  INSERT INTO sluice.tally (tenant, member, kind, count, bytes)
    SELECT tenant, 0, kind, count(*), sum(bytes) FROM sluice.live WHERE id <> '${id}' GROUP BY tenant, kind
    ON CONFLICT (tenant, member, kind) DO UPDATE
      SET count = tally.count + excluded.count, bytes = tally.bytes + excluded.bytes;`
const rowsOfStatement = 100_000
/** A gateway gives memory back when it has rested so long, ms. */
const restMs = 30_000

/** Waits until both gateways have read the record behind their start; returns the CPU that PostgreSQL took, µs. */
async function untilRested(): Promise<number> {
  const first = (await engines.work()).postgresMicros
  for (let last = first; ; ) {
    await sleep(5_000)
    const { postgresMicros } = await engines.work()
    if (postgresMicros - last < 250_000) return postgresMicros - first
    last = postgresMicros
  }
}

const begunAt = performance.now()
const tell = (text: string): void =>
  console.error(`${Math.round((performance.now() - begunAt) / 1_000)} s: ${text}`)

try {
  const stores = { empty: await engines.database('empty'), filled: await engines.database('filled') }
  for (const store of Object.values(stores)) {
    const { host } = await open('template', store)
    const one: Admission = { first: 0, count: 1, batch: 1, recipients, sendAt: Date.now() + 2 * hourMs }
    await admitted(host, one)
    await stop(host)
  }
  const [one] = await engines.ask<{ id: string }>(stores.filled, 'SELECT id FROM sluice.live')
  for (let from = 1; from <= waiting; from += rowsOfStatement) {
    const to = Math.min(waiting, from + rowsOfStatement - 1)
    await engines.ask(stores.filled, copies(one!.id, from, to))
    tell(`${to} of ${waiting} wait`)
  }
  await engines.ask(stores.filled, tallies(one!.id))
  for (const store of Object.values(stores)) {
    await engines.ask(store, 'VACUUM ANALYZE')
    await engines.ask(store, 'CHECKPOINT')
  }
  const sides = { empty: await open('empty', stores.empty), filled: await open('filled', stores.filled) }
  const megabytesOf = async ({ host }: Side): Promise<number> =>
    (await host.ask<Cost>('cost')).rssBytes / 2 ** 20
  const startMicros = await untilRested()
  tell(`both gateways have started; their starts cost PostgreSQL ${Math.round(startMicros / 1_000)} ms`)
  let megabytes = 0
  for (let round = -1; round < rounds; round += 1) {
    // As the server does by itself within a minute: after the round that warms up, it plans with the sizes of the tables.
    if (round === 0) for (const store of Object.values(stores)) await engines.ask(store, 'ANALYZE')
    for (const side of round % 2 === 0 ? [sides.empty, sides.filled] : [sides.filled, sides.empty]) {
      const before = (await engines.work()).postgresMicros
      const found = await release(side.host, { first: side.first, rows, recipients })
      const micros = ((await engines.work()).postgresMicros - before) / rows
      side.first += rows
      if (side === sides.filled) megabytes = Math.max(megabytes, await megabytesOf(side))
      // The first round warms up.
      if (round >= 0) {
        side.found.push(found)
        side.postgresMicros.push(micros)
      }
      const name = side === sides.filled ? `over ${waiting}` : 'over none'
      tell(
        `round ${round + 1} of ${rounds}, ${name}: accepted ${Math.round(found.accepted)}/s, ` +
          `released ${Math.round(found.released)}/s, PostgreSQL ${Math.round(micros)} µs each`,
      )
    }
  }
  await sleep(restMs)
  const restingMegabytes = await megabytesOf(sides.filled)
  const emptyMegabytes = await megabytesOf(sides.empty)
  await Promise.all(Object.values(sides).map(({ host }) => stop(host)))
  const [left] = await engines.ask<{ live: string }>(
    stores.filled,
    'SELECT count(*) AS live FROM sluice.live',
  )
  if (Number(left!.live) !== waiting + 1) throw new Error(`${left!.live} wait of ${waiting + 1}`)

  const shown = waiting.toLocaleString('en-US')
  const compare = (what: string, key: keyof Released) => ({
    what,
    unit: 'notifications/s',
    ours: sides.filled.found.map((found) => found[key]),
    against: {
      name: 'a gateway over an empty record',
      figures: sides.empty.found.map((found) => found[key]),
    },
  })
  const goal = <T extends object>(bound: T): { goal?: T } => (waiting >= 1_000_000 ? { goal: bound } : {})
  save({
    name: 'fleet-waiting',
    title: `A gateway over a PostgreSQL in which ${shown} notifications wait, beside one over an empty record.`,
    rounds,
    comparisons: [
      { ...compare(`accepting with ${shown} in PostgreSQL`, 'accepted'), ...goal({ min: 0.9 }) },
      { ...compare(`releasing with ${shown} in PostgreSQL`, 'released'), ...goal({ min: 0.9 }) },
      {
        what: 'CPU of PostgreSQL for a notification',
        unit: 'µs',
        ours: sides.filled.postgresMicros,
        against: { name: 'a gateway over an empty record', figures: sides.empty.postgresMicros },
      },
      {
        what: `memory with ${shown} in PostgreSQL, ${restMs / 1_000} s after the last one has left`,
        unit: 'MB RSS',
        ours: [restingMegabytes],
        ...goal({ max: 400 }),
      },
      { what: 'the same over an empty record', unit: 'MB RSS', ours: [emptyMegabytes] },
      { what: 'memory at most, behind a round', unit: 'MB RSS', ours: [megabytes] },
      {
        what: 'start of the process until it answers',
        unit: 'ms',
        ours: [sides.filled.startMs],
        against: { name: 'a gateway over an empty record', figures: [sides.empty.startMs] },
      },
    ],
    notes: [
      `Each round accepts ${rows} for one instant in batches of 100, and releases them at it. The CPU of PostgreSQL is that of the whole server, in which the other gateway rests. The gateways run from the TypeScript source, whose compiler is part of their memory.`,
    ],
  })
} finally {
  await Promise.all(Array.from(hosts, stop))
  await engines.stop()
}

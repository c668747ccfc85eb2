/**
 * Very many notifications that wait in PostgreSQL: the speed of accepting and of releasing at a gateway over that record,
 * beside one over an empty record on the same server, in turn; how long each takes to start, and its memory. The record is
 * filled by the server itself, with copies of one notification that a gateway has accepted.
 *
 *     npm run bench -- fleet-waiting [--rounds 5] [--waiting 1000000] [--rows 2000]
 */
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

interface Side {
  readonly host: Peer
  readonly startMs: number
  readonly found: Released[]
  first: number
}

async function open(name: string, store: string): Promise<Side> {
  const begun = performance.now()
  const shared = { store, state: `${engines.redis.url}?prefix=${name}:` }
  const host = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide', shared }))
  await host.ask('port')
  return { host, startMs: performance.now() - begun, found: [], first: 1 }
}

/** Copies the one notification on record: recipients and instants differ, spread over two days that begin in two hours. */
const copies = `
  INSERT INTO sluice.notification (id, seq, tenant, recipient, category, job, shared, created_at, body, first)
    SELECT left(n.id, 10) || lpad(upper(to_hex(i)), 16, '0'), nextval('sluice.acceptance'), 'tenant-' || i % 10,
      'user-' || i % ${recipients}, n.category, n.job, n.shared, n.created_at,
      replace(n.body::text, n.recipient, 'user-' || i % ${recipients})::json, n.first
    FROM sluice.notification n, generate_series(1, ${waiting}) i;
  INSERT INTO sluice.live (id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts)
    SELECT n.id, n.seq, n.tenant, n.recipient, l.channel, l.priority, l.shared, l.bytes, l.status, l.kind, l.rev,
      l.due_at + (n.seq * 7919) % ${48 * hourMs}, l.attempts
    FROM sluice.notification n, sluice.live l WHERE n.id <> l.id;
  INSERT INTO sluice.tally (tenant, member, kind, count, bytes)
    SELECT tenant, 0, kind, count(*), sum(bytes) FROM sluice.live l
      WHERE id NOT IN (SELECT id FROM sluice.live ORDER BY seq LIMIT 1) GROUP BY tenant, kind
    ON CONFLICT (tenant, member, kind) DO UPDATE
      SET count = tally.count + excluded.count, bytes = tally.bytes + excluded.bytes;`

try {
  const stores = { empty: await engines.database('empty'), filled: await engines.database('filled') }
  for (const store of Object.values(stores)) {
    const { host } = await open('template', store)
    const one: Admission = { first: 0, count: 1, batch: 1, recipients, sendAt: Date.now() + 2 * hourMs }
    await host.ask('admit', one)
    await host.stop()
  }
  await engines.ask(stores.filled, copies)
  for (const store of Object.values(stores)) {
    await engines.ask(store, 'VACUUM ANALYZE')
    await engines.ask(store, 'CHECKPOINT')
  }
  const sides = { empty: await open('empty', stores.empty), filled: await open('filled', stores.filled) }
  let megabytes = 0
  for (let round = -1; round < rounds; round += 1)
    for (const side of round % 2 === 0 ? [sides.empty, sides.filled] : [sides.filled, sides.empty]) {
      const found = await release(side.host, { first: side.first, rows, recipients })
      side.first += rows
      if (side === sides.filled)
        megabytes = Math.max(megabytes, (await side.host.ask<Cost>('cost')).rssBytes / 2 ** 20)
      // The first round warms up.
      if (round >= 0) side.found.push(found)
    }
  await Promise.all(Object.values(sides).map(({ host }) => host.stop()))
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
        what: `memory with ${shown} in PostgreSQL`,
        unit: 'MB RSS',
        ours: [megabytes],
        ...goal({ max: 400 }),
      },
      {
        what: 'start of the process until it answers',
        unit: 'ms',
        ours: [sides.filled.startMs],
        against: { name: 'a gateway over an empty record', figures: [sides.empty.startMs] },
      },
    ],
    notes: [
      `Each round accepts ${rows} for one instant in batches of 100, and releases them at it. The gateways run from the TypeScript source, whose compiler is part of their memory.`,
    ],
  })
} finally {
  await engines.stop()
}

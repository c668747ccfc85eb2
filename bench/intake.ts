/**
 * A burst through Kafka: 50,000 records and 1,000 that cannot be read are written as fast as the broker takes them, and two
 * gateways over PostgreSQL and Redis take them at the pace of one account of 1,000/s. One gateway is killed, one is frozen
 * until its partitions are another's and it is declared dead, and the broker is restarted. In the end each record must be
 * accepted once, each unreadable one be a dead letter once, and no second at the provider's socket hold more calls than the
 * rate; else it says so and the exit code is 1. It takes some minutes, shows how far it is, and ends by itself where nothing
 * moves for five of them.
 *
 *     npm run services -- run postgres redis -- npx node --conditions=sluice-source bench/intake.ts
 *
 * On a slow or busy machine: `--records 5000 --poison 100 --rate 100`.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { Site } from '../packages/gateway/test/child.ts'
import { callsOf, startFleet, type TestFleet } from '../packages/gateway/test/guarantees/fleet.ts'
import { allOf, figure } from '../packages/gateway/test/intake/gateway-figures.ts'
import { entryOf, makeTopic, poisonOf, produce, until } from '../packages/gateway/test/intake/topic.ts'
import { dropSchemas } from '../packages/gateway/test/store/postgres/database.ts'
import { startKafka } from '../scripts/services/kafka.ts'

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '50000' },
    poison: { type: 'string', default: '1000' },
    rate: { type: 'string', default: '1000' },
    partitions: { type: 'string', default: '12' },
  },
})
const [records, poison, rate, partitions] = [
  values.records,
  values.poison,
  values.rate,
  values.partitions,
].map(Number) as [number, number, number, number]
const topic = 'burst'
/** Where nothing moves for so long, it has failed, ms. */
const patienceMs = 5 * 60_000
/** The state is shown this often, ms. */
const shownMs = 5_000
/** Longer than the session of a member, and than the silence after which the others declare a gateway dead. */
const frozenMs = 15_000

const cleanups: (() => unknown)[] = []
const t = { after: (run: () => unknown) => void cleanups.push(run) }
const folder = mkdtempSync(join(tmpdir(), 'sluice-intake-'))
let kafka = await startKafka({ folder })

async function run(): Promise<boolean> {
  await makeTopic(kafka.url, topic, partitions)
  const fleet = await startFleet(t as never, {
    name: 'intake',
    rate: [`${rate}/s`],
    config: { intake: [{ kafka: kafka.url, topic }] },
  })
  const [one, other] = fleet.sites as [(typeof fleet.sites)[0], (typeof fleet.sites)[0]]
  const each = Math.ceil((records + poison) / poison)
  const isPoison = (n: number): boolean => n % each === 0 && n / each < poison
  const entries = Array.from({ length: records + poison }, (_, n) =>
    isPoison(n) ? poisonOf(n, n % partitions) : entryOf(n, n % partitions, { channel: 'webhook' }),
  )
  const begun = performance.now()
  const seconds = (): string => ((performance.now() - begun) / 1_000).toFixed(1)
  const say = (what: string): void => console.log(`${seconds().padStart(6)} s  ${what}`)
  console.log(`load ${loadavg()[0]!.toFixed(1)}`)
  await produce(kafka.url, topic, entries)
  say(`${entries.length} records are in the topic`)

  const watched = { fleet, say, records }
  await reach(watched, 'accepted', records * 0.15)
  await one.kill()
  say('one gateway is killed')
  await reach({ ...watched, isDown: one }, 'accepted', records * 0.25)
  await one.start()
  say('it is started again')
  await reach(watched, 'accepted', records * 0.4)
  const { pid } = other
  process.kill(pid!, 'SIGSTOP')
  say('the other gateway is frozen')
  await sleep(frozenMs)
  process.kill(pid!, 'SIGCONT')
  say('it goes on, and may end because it was declared dead')
  await reach(watched, 'accepted', records * 0.6)
  await kafka.stop()
  say('the broker is stopped')
  kafka = await startKafka({ folder, port: Number(kafka.url.split(':')[1]) })
  say('the broker is back')
  await reach(watched, 'accepted', records)
  say('all are accepted')
  await reach(watched, 'ended', records)
  say('all have left')
  await until('the unreadable ones are dead letters', async () => {
    return (await allOf(one, 'dead-letters?cause=poison&limit=500')).length >= poison
  })

  const found = (await allOf(one, 'notifications?limit=500')).map(({ recipient }) => recipient)
  const dead = (await allOf(one, 'dead-letters?cause=poison&limit=500')).map(({ record }) =>
    Buffer.from(record!.bytes, 'base64').toString(),
  )
  const calls = await callsOf(fleet)
  const times = calls.map(({ at }) => at).sort((a, b) => a - b)
  const over = times.filter((at, index) => (times[index + rate] ?? Number.POSITIVE_INFINITY) - at < 1_000)
  let fullest = 0
  for (let [from, to] = [0, 0]; to < times.length; to += 1) {
    while (times[to]! - times[from]! >= 1_000) from += 1
    fullest = Math.max(fullest, to - from + 1)
  }
  const twice = (all: readonly unknown[]): number => all.length - new Set(all).size
  console.table({
    'accepted twice': twice(found),
    'not accepted': records - new Set(found).size,
    'unreadable records that are no dead letter': poison - new Set(dead).size,
    'dead letters twice': twice(dead),
    'calls of the provider': calls.length,
    'notifications that were never called': records - new Set(calls.map(({ id }) => id)).size,
    'called again after a kill, with the same id': twice(calls.map(({ id }) => id)),
    'seconds with more calls than the rate': over.length,
    'calls in the fullest second': fullest,
    'most that waited on record': mostWaiting,
  })
  return (
    new Set(found).size === records &&
    twice(found) === 0 &&
    new Set(dead).size === poison &&
    twice(dead) === 0 &&
    new Set(calls.map(({ id }) => id)).size === records &&
    over.length === 0
  )
}

interface Watched {
  readonly fleet: TestFleet
  readonly say: (what: string) => void
  readonly records: number
  /** The gateway that is meant to be down. */
  readonly isDown?: Site
}

/** The most that was accepted and had not ended, as far as it was seen. */
let mostWaiting = 0

/** Waits until so many are accepted, or have ended. A gateway that has ended is started again, as a supervisor does. */
async function reach(
  { fleet, say, isDown }: Watched,
  what: 'accepted' | 'ended',
  count: number,
): Promise<void> {
  let best = { accepted: 0, ended: 0 }
  let [movedAt, shownAt] = [Date.now(), 0]
  for (; ; await sleep(250)) {
    for (const site of fleet.sites)
      if (site.pid === undefined && site !== isDown) {
        say(`a gateway has ended and is started again: ${site.log().trim().split('\n').at(-1)}`)
        await site.start()
      }
    const found = await Promise.all(
      fleet.sites.filter((site) => site !== isDown).map((site) => countsOf(site).catch(() => best)),
    )
    const now = {
      accepted: Math.max(best.accepted, ...found.map(({ accepted }) => accepted)),
      ended: Math.max(best.ended, ...found.map(({ ended }) => ended)),
    }
    if (now.accepted > best.accepted || now.ended > best.ended) movedAt = Date.now()
    best = now
    mostWaiting = Math.max(mostWaiting, now.accepted - now.ended)
    if (Date.now() - shownAt > shownMs) {
      say(`${best.accepted} accepted · ${best.ended} ended`)
      shownAt = Date.now()
    }
    if (best[what] >= count) return
    if (Date.now() - movedAt > patienceMs)
      throw new Error(
        `nothing has moved for ${patienceMs / 60_000} min: ${best[what]} of ${count} are ${what}\n` +
          fleet.sites.map((site) => site.log().trim().split('\n').slice(-5).join('\n')).join('\n'),
      )
  }
}

/** The figures are of the record, which both gateways share; they may be a second old, and never fall. */
async function countsOf(site: Site): Promise<{ readonly accepted: number; readonly ended: number }> {
  const of = (status: string): Promise<number> => figure(site, `sluice_notifications\\{status="${status}"\\}`)
  const [accepted, delivered, dead] = await Promise.all([
    figure(site, 'sluice_notifications'),
    of('delivered'),
    of('dead'),
  ])
  return { accepted, ended: delivered + dead }
}

let holds = false
try {
  holds = await run()
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup()
  await kafka.stop()
  await dropSchemas()
  rmSync(folder, { recursive: true, force: true })
}
console.log(holds ? 'It holds: each record was accepted once.' : 'It does NOT hold: see above.')
// Connections to engines that are gone by now would keep the process.
process.exit(holds ? 0 : 1)

/**
 * A burst through Kafka: 50,000 records and 1,000 that cannot be read are written as fast as the broker takes them, and two
 * gateways over PostgreSQL and Redis take them at the pace of one account of 1,000/s. One gateway is killed, one is frozen
 * until its partitions are another's and it is declared dead, and the broker is restarted. In the end each record must be
 * accepted once, each unreadable one be a dead letter once, and no second at the provider's socket hold more calls than the
 * rate; else the exit code is 1. It takes some minutes.
 *
 *     npm run services -- run postgres redis -- npx node --conditions=sluice-source bench/intake.ts
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { callsOf, startFleet } from '../packages/gateway/test/guarantees/fleet.ts'
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
const patienceMs = 15 * 60_000
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

  const onRecord = async (): Promise<number> => {
    for (const site of [other, one]) {
      const count = await figure(site, 'sluice_notifications').catch(() => undefined)
      if (count !== undefined) return count
    }
    return 0
  }
  const reach = (share: number) =>
    until(`${share} is accepted`, async () => (await onRecord()) >= records * share, patienceMs)
  await reach(0.15)
  await one.kill()
  say(`one gateway is killed; ${await onRecord()} are accepted`)
  await one.start()
  await reach(0.35)
  const { pid } = other
  process.kill(pid!, 'SIGSTOP')
  say(`the other gateway is frozen; ${await onRecordOf(one)} are accepted`)
  await sleep(frozenMs)
  process.kill(pid!, 'SIGCONT')
  say(`it goes on; ${await onRecordOf(one)} are accepted`)
  await sleep(2_000)
  if (isGone(pid!)) {
    say('it has ended, because the others had declared it dead')
    await other.start()
  }
  await reach(0.6)
  await kafka.stop()
  say(`the broker is stopped; ${await onRecord()} are accepted`)
  kafka = await startKafka({ folder, port: Number(kafka.url.split(':')[1]) })
  say('the broker is back')
  await reach(1)
  say('all are accepted')
  const waiting = ['queued', 'sending', 'scheduled']
  const left = async (): Promise<number> => {
    const counts = await Promise.all(
      waiting.map((status) => figure(other, `sluice_notifications\\{status="${status}"\\}`)),
    )
    return counts.reduce((sum, count) => sum + count, 0)
  }
  await until('all have left', async () => (await left()) === 0, patienceMs)
  say('all have left')

  const found = (await allOf(other, 'notifications?limit=500')).map(({ recipient }) => recipient)
  const dead = (await allOf(other, 'dead-letters?cause=poison&limit=500')).map(({ record }) =>
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

const onRecordOf = (site: Parameters<typeof figure>[0]): Promise<number> =>
  figure(site, 'sluice_notifications')

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch {
    return true
  }
}

let holds = false
try {
  holds = await run()
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup()
  await kafka.stop()
  await dropSchemas()
  rmSync(folder, { recursive: true, force: true })
}
console.log(holds ? 'each record was accepted once' : 'NOT each record was accepted once')
process.exitCode = holds ? 0 : 1

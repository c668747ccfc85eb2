/**
 * A burst on real engines: records wait in a Kafka topic, gateways over one PostgreSQL and one Redis take them at the pace
 * of the provider's accounts, and a sandbox in a process of its own keeps the rates and counts what arrives. The figures
 * are those of the scenario `burst`, which is the same in virtual time.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startKafka } from '../../../../scripts/services/kafka.ts'
import { startPostgres } from '../../../../scripts/services/postgres.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import type { Service } from '../../../../scripts/services/service.ts'
import { createSite, type Site } from '../child.ts'
import { allOf, figure } from '../intake/gateway-figures.ts'
import { makeTopic, produce } from '../intake/topic.ts'
import { type SandboxProcess, startSandbox } from './sandbox-process.ts'

export interface BurstOptions {
  readonly records: number
  readonly accounts: number
  readonly gateways: number
  /** Registers what stops something that was started; run in the reverse order. */
  readonly after: (cleanup: () => unknown) => void
}

/** Calls per second of each account, as in the scenario. */
const rate = 10
const topic = 'burst'
const partitions = 12
const tenant = 'acme'
/** A burst that moves nothing for so long has failed, ms. */
const patienceMs = 180_000

const whole = (value: number): string => Math.round(value).toLocaleString('en-US')
const inSeconds = (ms: number): string => `${(ms / 1_000).toFixed(2)} s`

/** Runs the burst and prints its table; false where something was lost, accepted twice, or over a rate. */
export async function runBurst(options: BurstOptions): Promise<boolean> {
  const { records, after } = options
  const begunAt = Date.now()
  const say = (text: string): void =>
    console.log(`${((Date.now() - begunAt) / 1_000).toFixed(1).padStart(7)} s  ${text}`)
  const accounts = Array.from({ length: options.accounts }, (_, n) => `a${String(n + 1).padStart(3, '0')}`)
  const blocked = accounts.slice(0, Math.floor(accounts.length / 10))

  const kafka = await startKafka()
  after(() => kafka.stop())
  say(`Kafka runs at ${kafka.url}`)
  await makeTopic(kafka.url, topic, partitions)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-demo-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  const sandbox = await startSandbox(folder, {
    behaviour: { rates: [{ max: rate, windowMs: 1_000 }] },
    accounts: Object.fromEntries(
      blocked.map((id) => [id, { rates: [{ max: 1, windowMs: 86_400_000 }], retryAfter: '300' }]),
    ),
  })
  after(() => sandbox.stop())
  say(`the sandbox answers at ${sandbox.url}: ${accounts.length} accounts, ${blocked.length} blocked`)
  const sites = await startGateways(options, { kafka, accounts, sandbox, say })

  const wroteAt = Date.now()
  await produce(
    kafka.url,
    topic,
    Array.from({ length: records }, (_, n) => recordOf(n)),
  )
  const wroteMs = Date.now() - wroteAt
  say(`${whole(records)} records were written within ${inSeconds(wroteMs)}`)

  const isDone = await watch(sites, sandbox, { records, say })
  for (const site of sites) if (site.log() !== '') say(`a gateway says: ${site.log().trim()}`)
  if (!isDone) say(`nothing has moved for ${patienceMs / 1_000} s: the burst has failed`)
  const { rows, holds } = await count(sites[0]!, sandbox, { records, accounts, wroteAt })
  console.log()
  for (const [name, value] of [
    ['records', whole(records)],
    ...rows,
    ['accounts carry', `${whole((accounts.length - blocked.length) * rate)}/s`],
    ['records were written within', inSeconds(wroteMs)],
    ['the command took', inSeconds(Date.now() - begunAt)],
  ])
    console.log(`${name!.padEnd(36)}${value!.padStart(14)}`)
  console.log()
  console.log(holds ? 'Nothing was lost, and no account was called above its rate.' : 'It did NOT hold.')
  return holds
}

interface Surroundings {
  readonly kafka: Service
  readonly accounts: readonly string[]
  readonly sandbox: SandboxProcess
  readonly say: (text: string) => void
}

async function startGateways(
  { gateways, after }: BurstOptions,
  { kafka, accounts, sandbox, say }: Surroundings,
): Promise<readonly Site[]> {
  const postgres = await startPostgres()
  after(() => postgres.stop())
  say('PostgreSQL runs')
  const redis = await startRedis()
  after(() => redis.stop())
  say('Redis runs')
  const config = {
    store: postgres.url,
    // A machine that does all of this at once answers late.
    state: `${redis.url}?deadline=1s`,
    intake: [{ kafka: kafka.url, topic }],
    pools: {
      sms: {
        provider: 'webhook',
        // A burst after nothing leaves load shedding no throughput to go by: it would admit next to nothing.
        shedding: false,
        accounts: accounts.map((id) => ({ id, url: `${sandbox.url}/hook/${id}`, rate: `${rate}/s` })),
      },
    },
  }
  const sites = await Promise.all(
    Array.from({ length: gateways }, () => createSite({ after } as never, { config })),
  )
  const [first, ...others] = sites
  // The first one makes the schema.
  await first!.start()
  await Promise.all(others.map((site) => site.start()))
  say(`${sites.length} gateways are ready: ${sites.map(({ url }) => url).join(' and ')}`)
  return sites
}

const recordOf = (n: number) => ({
  partition: n % partitions,
  value: JSON.stringify({
    tenant,
    module: 'login',
    recipient: { id: `r${n}`, phone: `+1555${String(n).padStart(7, '0')}` },
    channel: 'sms',
    category: 'security',
    content: { text: `Your code is ${100_000 + n}` },
  }),
})

/** Shows how the burst leaves, each second, until all has; false where nothing moves any more. */
async function watch(
  sites: readonly Site[],
  sandbox: SandboxProcess,
  { records, say }: { readonly records: number; readonly say: (text: string) => void },
): Promise<boolean> {
  let last = { at: Date.now(), calls: 0 }
  let movedAt = Date.now()
  let accepted = 0
  for (;;) {
    await sleep(1_000)
    const { arrived, calls } = await sandbox.ask<{ arrived: number; calls: number }>('counters')
    const ask = (site: Site, name: string): Promise<number | undefined> =>
      figure(site, name).catch(() => undefined)
    // A busy gateway may answer late, and its figures may be a second old.
    const [onRecord, ...out] = await Promise.all([
      ask(sites[0]!, 'sluice_notifications'),
      ask(sites[0]!, 'sluice_accounts\\{[^}]*status="blocked"\\}'),
    ])
    accepted = onRecord ?? accepted
    const now = Date.now()
    const perSecond = ((calls - last.calls) * 1_000) / (now - last.at)
    if (calls > last.calls) movedAt = now
    last = { at: now, calls }
    const [waiting, delivered] = [records - arrived, arrived]
    say(
      [
        `${whole(waiting)} waiting`,
        `${whole(accepted)} accepted`,
        `${whole(delivered)} delivered`,
        `${whole(perSecond)} calls/s`,
        `${out[0] ?? '?'} accounts out`,
      ].join(' · '),
    )
    if (arrived >= records && accepted >= records) return true
    for (const site of sites)
      if (site.pid === undefined) {
        say(`a gateway has ended: ${site.log().trim()}`)
        return false
      }
    if (now - movedAt > patienceMs) return false
  }
}

interface Call {
  readonly at: number
  readonly account: string
  readonly message: { readonly id: string; readonly to: { readonly id: string } }
}

/** Counts what is on record and what arrived at the sandbox, which has its own count of windows. */
async function count(
  site: Site,
  sandbox: SandboxProcess,
  {
    records,
    accounts,
    wroteAt,
  }: { readonly records: number; readonly accounts: readonly string[]; readonly wroteAt: number },
): Promise<{ readonly rows: readonly (readonly [string, string])[]; readonly holds: boolean }> {
  const accepted = (await allOf(site, 'notifications?limit=500', tenant)).map(({ recipient }) => recipient)
  const { items: received } = await sandbox.ask<{ items: readonly Call[] }>('received')
  const { items: refused } = await sandbox.ask<{ items: readonly Call[] }>('calls?fate=rate_limit')
  const { items: windows } = await sandbox.ask<{ items: readonly { most: number }[] }>('windows?window=1s')
  const delivered = new Set(received.map(({ message }) => message.to.id))
  const acceptedTwice = accepted.length - new Set(accepted).size
  const deliveredTwice = received.length - delivered.size
  const lost = records - delivered.size
  const fullest = Math.max(0, ...windows.map(({ most }) => most))
  const delays = received.map(({ at }) => at - wroteAt).sort((a, b) => a - b)
  const delay = (share: number): string => inSeconds(delays[Math.ceil(delays.length * share) - 1] ?? 0)
  const lastMs = delays.at(-1) ?? 0
  return {
    rows: [
      ['accepted', whole(accepted.length)],
      ['accepted twice', whole(acceptedTwice)],
      ['messages sent', whole(received.length)],
      ['sent twice', whole(deliveredTwice)],
      ['lost', whole(lost)],
      ['accounts refused', `${new Set(refused.map(({ account }) => account)).size} of ${accounts.length}`],
      ['calls refused', whole(refused.length)],
      ['fullest window of an account', `${fullest} of ${rate}/s`],
      ['delay p50', delay(0.5)],
      ['delay p90', delay(0.9)],
      ['delay p99', delay(0.99)],
      ['the last one after', inSeconds(lastMs)],
      ['calls per second', whole(((received.length + refused.length) * 1_000) / Math.max(1, lastMs))],
    ],
    holds:
      lost === 0 &&
      acceptedTwice === 0 &&
      deliveredTwice === 0 &&
      accepted.length === records &&
      fullest <= rate,
  }
}

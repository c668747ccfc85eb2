/**
 * A burst on real engines: records wait in a Kafka topic, gateways over one PostgreSQL and one Redis take them at the pace
 * of the provider's accounts, and a sandbox in a process of its own keeps the rates and counts what arrives. The figures
 * are those of the scenario `burst`, which is the same in virtual time.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { engines } from '../../../../scripts/services/engines.ts'
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
/** Topic, schema and keys of this run: an engine that was named may hold others. */
const run = `burst_${randomBytes(4).toString('hex')}`
const partitions = 12
const tenant = 'acme'
/** A burst that moves nothing for so long has failed, ms. */
const patienceMs = 180_000
/** While nothing moves, a line is written this often, ms. */
const quietMs = 10_000

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

  const kafka = await engineAt('kafka', after)
  say(`Kafka runs at ${kafka}`)
  await makeTopic(kafka, run, partitions)
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
    kafka,
    run,
    Array.from({ length: records }, (_, n) => recordOf(n)),
  )
  const wroteMs = Date.now() - wroteAt
  say(`${whole(records)} records were written within ${inSeconds(wroteMs)}`)

  const { isDone, ended } = await watch(sites, sandbox, { records, say })
  if (!isDone) say(`nothing has moved for ${patienceMs / 1_000} s: the burst has failed`)
  const { rows, holds } = await count(sites[0]!, sandbox, { records, accounts, wroteAt, ended })
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

/** Starts an engine, unless the environment names one that runs. @throws {EngineMissing} with the way out */
async function engineAt(
  name: 'kafka' | 'postgres' | 'rabbitmq' | 'redis',
  after: BurstOptions['after'],
): Promise<string> {
  const { env, start } = engines[name]!
  const named = process.env[env[0]]
  if (named !== undefined) return named
  const service = await start({})
  after(() => service.stop())
  return service.url
}

interface Surroundings {
  readonly kafka: string
  readonly accounts: readonly string[]
  readonly sandbox: SandboxProcess
  readonly say: (text: string) => void
}

async function startGateways(
  { gateways, after }: BurstOptions,
  { kafka, accounts, sandbox, say }: Surroundings,
): Promise<readonly Site[]> {
  const postgres = await engineAt('postgres', after)
  say('PostgreSQL runs')
  const redis = await engineAt('redis', after)
  say('Redis runs')
  const rabbitmq = await engineAt('rabbitmq', after)
  say('RabbitMQ runs')
  const config = {
    store: `${postgres}${postgres.includes('?') ? '&' : '?'}schema=${run}`,
    // A machine that does all of this at once answers late.
    state: `${redis}?deadline=1s&prefix=${run}:`,
    queue: rabbitmq,
    intake: [{ kafka, topic: run, group: run }],
    pools: {
      sms: {
        provider: 'webhook',
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

interface Watched {
  /** False where nothing has moved for the patience. */
  readonly isDone: boolean
  /** Gateways that have ended and were started again: what they were sending may be sent twice. */
  readonly ended: number
}

/** Shows how the burst leaves, until all of it has. A gateway that ends is started again, as a supervisor does. */
async function watch(
  sites: readonly Site[],
  sandbox: SandboxProcess,
  { records, say }: { readonly records: number; readonly say: (text: string) => void },
): Promise<Watched> {
  // A busy gateway may answer late, and its figures may be a second old.
  const ask = (name: string): Promise<number | undefined> => figure(sites[0]!, name).catch(() => undefined)
  let last = { at: Date.now(), calls: 0, accepted: 0, saidAt: 0 }
  let movedAt = Date.now()
  let ended = 0
  for (;;) {
    await sleep(1_000)
    const { arrived, calls } = await sandbox.ask<{ arrived: number; calls: number }>('counters')
    const [onRecord, out] = await Promise.all([
      ask('sluice_notifications'),
      ask('sluice_accounts\\{[^}]*status="blocked"\\}'),
    ])
    const now = Date.now()
    const accepted = Math.max(last.accepted, onRecord ?? 0, arrived)
    const hasMoved = calls > last.calls || accepted > last.accepted
    if (hasMoved) movedAt = now
    const isSaid = hasMoved || now - last.saidAt > quietMs
    if (isSaid)
      say(
        [
          `${whole(records - arrived)} waiting`,
          `${whole(accepted)} accepted`,
          `${whole(arrived)} delivered`,
          `${whole(((calls - last.calls) * 1_000) / (now - last.at))} calls/s`,
          `${out ?? '?'} accounts out`,
        ].join(' · '),
      )
    last = { at: now, calls, accepted, saidAt: isSaid ? now : last.saidAt }
    if (arrived >= records) return { isDone: true, ended }
    if (now - movedAt > patienceMs) return { isDone: false, ended }
    for (const site of sites.filter(({ pid }) => pid === undefined)) {
      ended += 1
      say(`a gateway has ended and is started again: ${site.log().trim().split('\n').at(-1)}`)
      await site.start()
    }
  }
}

interface Call {
  readonly at: number
  readonly account: string
  readonly message: { readonly id: string; readonly to: { readonly id: string } }
}

interface Counted {
  readonly records: number
  readonly accounts: readonly string[]
  readonly wroteAt: number
  readonly ended: number
}

/** Counts what is on record and what arrived at the sandbox, which has its own count of windows. */
async function count(
  site: Site,
  sandbox: SandboxProcess,
  { records, accounts, wroteAt, ended }: Counted,
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
      ['gateways that ended', whole(ended)],
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
      (deliveredTwice === 0 || ended > 0) &&
      accepted.length === records &&
      fullest <= rate,
  }
}

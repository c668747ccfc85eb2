/**
 * Two gateways as processes over one PostgreSQL and one Redis, under what takes too long for the test run. Each proof prints
 * one line of JSON, and the exit code is 1 where it found something:
 *
 * - `opt-outs`: so many recipients opt out at one gateway while both are given notifications for them. No call may be made
 *   for a recipient after the answer to the PATCH.
 * - `lost-answers`: connections to PostgreSQL are cut after a statement was worked and before its answer, the statements in
 *   turn, twice a second. No notification may stand as `sending` for more than 5 s without a call, and none may be lost.
 * - `clock`: the clock of PostgreSQL is set an hour on, and later back. No gateway may be declared dead, all is delivered,
 *   and no recipient gets more than its limit.
 *
 *     npm run services -- run postgres redis faketime -- node --conditions=sluice-source bench/fleet-proofs.ts opt-outs --count 10000
 *     npm run services -- run postgres redis faketime -- node --conditions=sluice-source bench/fleet-proofs.ts lost-answers --seconds 60
 *     npm run services -- run postgres redis faketime -- node --conditions=sluice-source bench/fleet-proofs.ts clock --seconds 60
 */
import { rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import {
  type Call,
  callsOf,
  inParallel,
  startFleet,
  type TestFleet,
} from '../packages/gateway/test/guarantees/fleet.ts'
import { overfull } from '../packages/gateway/test/guarantees/windows.ts'
import { dropSchemas, schemaUrl } from '../packages/gateway/test/store/postgres/database.ts'
import { startProxy } from '../packages/gateway/test/store/postgres/proxy.ts'
import { startPostgres } from '../scripts/services/postgres.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    count: { type: 'string', default: '10000' },
    seconds: { type: 'string', default: '60' },
    clients: { type: 'string', default: '48' },
  },
})
const seconds = Number(values.seconds)
const clients = Number(values.clients)
/** Time between two beats, as of `sluice serve`, ms: a gateway is declared dead after 12 s. */
const beatMs = 2_000
/** Without it recipients would wait for the limits and quiet hours of the built-in policy. */
const unlimited = { version: 1, limits: [] }
const ends: (() => unknown)[] = []
const cleanup = { after: (end: unknown) => ends.push(end as () => unknown) } as Parameters<
  typeof startFleet
>[0]
const now = (): number => performance.timeOrigin + performance.now()

/** Posts at both gateways in turn for so long; returns the ids that were accepted. */
async function postFor(fleet: TestFleet, ms: number, recipients: number): Promise<readonly string[]> {
  const until = performance.now() + ms
  const accepted: string[] = []
  await inParallel(8, 8, async (n) => {
    for (let k = 0; performance.now() < until; k += 1, await sleep(40)) {
      const recipient = { id: `p${(8 * k + n) % recipients}` }
      const answer = await fleet.post((n + k) % 2, { body: { recipient } }).catch(() => undefined)
      if (answer?.status === 202) accepted.push(answer.json<{ notificationId: string }>().notificationId)
    }
  })
  return accepted
}

/** Waits until all of the ids were called, no longer than that. */
async function missingAfter(
  fleet: TestFleet,
  ids: readonly string[],
  withinMs: number,
): Promise<readonly string[]> {
  for (const until = performance.now() + withinMs; ; await sleep(500)) {
    const called = new Set((await callsOf(fleet)).map(({ id }) => id))
    const missing = ids.filter((id) => !called.has(id))
    if (missing.length === 0 || performance.now() > until) return missing
  }
}

const windowsOver = (calls: readonly Call[], max: number, windowMs: number): number =>
  [...Map.groupBy(calls, ({ recipient }) => recipient).values()]
    .map((own) =>
      overfull(
        own.map(({ at }) => at),
        { max, windowMs },
      ),
    )
    .reduce((sum, over) => sum + over, 0)

async function optOuts() {
  const count = Number(values.count)
  const fleet = await startFleet(cleanup, {
    name: 'proof-opt-outs',
    beatMs,
    policy: unlimited,
  })
  const obeyedFrom = new Map<string, number>()
  let posted = 0
  let refused = 0
  const post = async (at: number, id: string): Promise<void> => {
    const body = { recipient: { id }, category: 'marketing' }
    const answer = await fleet.post(at, { body }).catch(() => undefined)
    if (answer?.status === 202) posted += 1
    else refused += 1
  }
  await inParallel(count, clients, async (n) => {
    const id = `p${n}`
    await Promise.all([0, 1].map((at) => post(at, id)))
    // These leave; of the next ones some leave and some are still on their way when the recipient opts out.
    await sleep(2_000 + ((n * 37) % 2_000))
    const posting = [0, 1, 0].map((at) => post(at, id))
    await sleep((n * 37) % 200)
    const patch = fleet.sites[n % 2]!.call('PATCH', `/api/v1/recipients/${id}`, {
      optOuts: [{ category: 'marketing' }],
    })
    // A connection that was lost says nothing: such a recipient counts as one without a 200.
    const patched = patch.then(({ status }) => status === 200 && obeyedFrom.set(id, now())).catch(() => false)
    await post((n + 1) % 2, id)
    await patched
    await Promise.all(posting)
    await post(n % 2, id)
  })
  await sleep(2_000)
  const calls = await callsOf(fleet)
  const late = calls.filter(
    ({ at, recipient }) => at > (obeyedFrom.get(recipient) ?? Number.POSITIVE_INFINITY),
  )
  const figures = {
    patches: count,
    answered200: obeyedFrom.size,
    posted,
    refused,
    calls: calls.length,
    late: late.length,
  }
  return { figures, isRight: late.length === 0 && obeyedFrom.size === count && calls.length > 0 }
}

/** Statements of the writing connection, of the beats and of reads. */
const statements = [
  'begin_sending(',
  'commit_and_count(',
  'claim_due(',
  'free_claims(',
  'release_due(',
  'open_epoch(',
  'beat(',
  'FROM whole',
]

async function lostAnswers() {
  const direct = schemaUrl('proof_lost')
  const proxy = await startProxy(direct)
  const fleet = await startFleet(cleanup, {
    name: 'proof_lost',
    config: { store: proxy.url },
    beatMs,
    policy: unlimited,
  })
  const client = new pg.Client(direct.replace(/[?].*/, ''))
  await client.connect()
  await client.query(`SET search_path = ${new URL(direct).searchParams.get('schema')!}`)
  const endsAt = performance.now() + seconds * 1_000
  let losses = 0
  const losing = (async () => {
    for (; performance.now() < endsAt; losses += 1, await sleep(500))
      proxy.loseAnswerOf(statements[losses % statements.length]!)
  })()
  /** When each row that is being sent was seen first, by its id and the instant of its right. */
  const seen = new Map<string, number>()
  let longestMs = 0
  const stuck = new Set<string>()
  let isOver = false
  const watching = (async () => {
    for (; !isOver; await sleep(250)) {
      const { rows } = await client.query('SELECT id, begun_at FROM live WHERE begun_at IS NOT NULL')
      const rights = new Map(rows.map(({ id, begun_at: at }) => [`${id} ${at}`, id as string]))
      for (const right of seen.keys()) if (!rights.has(right)) seen.delete(right)
      const at = now()
      for (const right of rights.keys()) if (!seen.has(right)) seen.set(right, at)
      const old = [...seen].filter(([, since]) => at - since > 1_000)
      if (old.length === 0) continue
      const calledAt = new Map((await callsOf(fleet)).map((call) => [call.id, call.at]))
      for (const [right, since] of old) {
        if ((calledAt.get(rights.get(right)!) ?? 0) > since - 1_000) continue
        longestMs = Math.max(longestMs, at - since)
        if (at - since > 5_000) stuck.add(right)
      }
    }
  })()
  const accepted = await postFor(fleet, seconds * 1_000, 200)
  await losing
  const missing = await missingAfter(fleet, accepted, 30_000)
  isOver = true
  await watching
  await client.end()
  proxy.close()
  const calls = await callsOf(fleet)
  const twice = calls.length - new Set(calls.map(({ id }) => id)).size
  const figures = {
    losses,
    accepted: accepted.length,
    missing: missing.length,
    calledTwice: twice,
    longestWithoutCallMs: Math.round(longestMs),
    stuck: stuck.size,
  }
  return { figures, isRight: missing.length === 0 && stuck.size === 0 && accepted.length > 0 }
}

async function clockOfPostgres() {
  const clockFile = join(tmpdir(), `sluice-proof-clock-${process.pid}`)
  const setClock = (text: string): void => writeFileSync(clockFile, `${text}\n`, { mode: 0o644 })
  setClock('+0s')
  ends.push(() => rmSync(clockFile, { force: true }))
  const faked = {
    LD_PRELOAD: process.env.SLUICE_TEST_FAKETIME!,
    FAKETIME_TIMESTAMP_FILE: clockFile,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
  }
  Object.assign(process.env, faked)
  const server = await startPostgres()
  for (const name of Object.keys(faked)) delete process.env[name]
  ends.push(() => server.stop())
  const client = new pg.Client(server.url)
  await client.connect()
  const limits = [{ name: 'all', for: 'any', max: ['5/2s'], over: 'delay' }]
  const fleet = await startFleet(cleanup, {
    name: 'proof-clock',
    config: { store: server.url },
    policy: { version: 1, limits },
    beatMs,
  })
  const hours: number[] = []
  const readHour = async (): Promise<void> => {
    const { rows } = await client.query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS at')
    hours.push(Math.round(((Number(rows[0].at) - Date.now()) / 3_600_000) * 100) / 100)
  }
  const stepping = (async () => {
    for (const step of ['+3600s', '-3600s', '+0s']) {
      await sleep((seconds * 1_000) / 4)
      setClock(step)
      await readHour()
    }
  })()
  const accepted = await postFor(fleet, seconds * 1_000, 40)
  await stepping
  const missing = await missingAfter(fleet, accepted, 60_000)
  await client.end()
  const dead = fleet.sites.filter(
    (site) => site.pid === undefined || site.log().includes('gateway.declared_dead'),
  )
  const calls = await callsOf(fleet)
  const over = windowsOver(calls, 5, 2_000)
  const figures = {
    hoursAhead: hours,
    declaredDead: dead.length,
    accepted: accepted.length,
    missing: missing.length,
    windowsOver: over,
  }
  return {
    figures,
    isRight:
      dead.length === 0 && missing.length === 0 && over === 0 && hours[0]! > 0.9 && accepted.length > 0,
  }
}

const proofs = { 'opt-outs': optOuts, 'lost-answers': lostAnswers, clock: clockOfPostgres } as const
const [name = ''] = positionals
const prove = Object.hasOwn(proofs, name) ? proofs[name as keyof typeof proofs] : undefined
if (prove === undefined) throw new Error(`expected one of ${Object.keys(proofs).join(', ')}`)
const startedAt = performance.now()
try {
  const { figures, isRight } = await prove()
  const tookS = Math.round((performance.now() - startedAt) / 1_000)
  console.log(JSON.stringify({ proof: name, ...figures, tookS, load: Math.round(loadavg()[0]!) }))
  process.exitCode = isRight ? 0 : 1
} finally {
  for (const end of ends.toReversed()) await end()
  await dropSchemas()
}

/** Pools as a stream: everything at first, then only the fields that change, and a bounded number of readers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AccountDetails, PoolDetails } from '../../../src/stages.ts'
import { startKeyed } from '../../guarantees/keyed.ts'
import { createSigner, tokenFor } from '../../tokens.ts'
import { openEvents } from '../sse-reader.ts'
import { startStub } from '../stub.ts'

interface Rows {
  readonly at: string
  readonly pools: readonly Readonly<Record<string, unknown>>[]
  readonly accounts: readonly Readonly<Record<string, unknown>>[]
}

const account = (id: string): AccountDetails => ({
  id,
  rate: '100/s',
  used: 0,
  status: 'healthy',
  blockedUntil: null,
  outSince: null,
  outUntil: null,
  outBecause: null,
  retryAfter: null,
  learnedRate: null,
  concurrency: 8,
  inFlight: 0,
  windows: [{ window: '100/s', marginMs: 20, used: 0, max: 100, freesAt: null }],
  p50Ms: null,
  p99Ms: null,
  perMinute: { delivered: 0, failed: 0, rateLimited: 0 },
})

/** Accounts that a test changes between two events, behind a stub. */
async function start(count: number) {
  const accounts = Array.from({ length: count }, (_, index) => account(`a${index}`))
  const pool = { channel: 'email', provider: 'smtp', rate: '100/s', carries: 100, admits: null } as const
  const figures = { waiting: 0 }
  let reads = 0
  const stub = await startStub({
    parts: {
      poolsView: {
        details(): readonly PoolDetails[] {
          reads += 1
          return [{ ...pool, retryBudget: 10, waiting: figures.waiting, accounts: [...accounts] }]
        },
        past: () => undefined,
      },
    },
  })
  const open = (headers: Record<string, string> = {}) =>
    openEvents<Rows>(`${stub.url}/api/v1/pools/stream`, 'accounts', headers)
  return { stub, accounts, figures, open, reads: () => reads }
}

test('a reader gets all pools and accounts first, then each second the fields that have changed', async () => {
  const { accounts, figures, open } = await start(3)
  const stream = await open()
  const [all] = await stream.events(1)
  assert.equal(all!.data.accounts.length, 3)
  assert.deepEqual(all!.data.accounts[0], { channel: 'email', ...account('a0') })
  assert.deepEqual(all!.data.pools, [
    {
      channel: 'email',
      provider: 'smtp',
      rate: '100/s',
      carries: 100,
      admits: null,
      retryBudget: 10,
      waiting: 0,
    },
  ])
  assert.equal(new Date(all!.data.at).getTime(), all!.id * 1_000)
  const until = Math.floor(Date.now() / 1_000) * 1_000 + 600_000
  accounts[1] = { ...accounts[1]!, status: 'held', outUntil: until, outBecause: 'hold' }
  figures.waiting = 7
  const [, next, quiet] = await stream.events(3)
  stream.close()
  assert.deepEqual(next!.data.accounts, [
    {
      channel: 'email',
      id: 'a1',
      status: 'held',
      outUntil: new Date(until).toISOString(),
      outBecause: 'hold',
    },
  ])
  assert.deepEqual(next!.data.pools, [{ channel: 'email', provider: 'smtp', waiting: 7 }])
  assert.deepEqual([quiet!.data.accounts, quiet!.data.pools], [[], []])
  assert.equal(quiet!.id, next!.id + 1)
})

test('a reader that comes back while another one stays gets what has changed since, whole', async () => {
  const { accounts, open } = await start(3)
  const stays = await open()
  const first = await open()
  const [seen] = await first.events(1)
  first.close()
  accounts[2] = { ...accounts[2]!, inFlight: 4 }
  await stays.events(3)
  const back = await open({ 'last-event-id': String(seen!.id) })
  const [missed] = await back.events(1)
  assert.deepEqual(missed!.data.accounts, [{ channel: 'email', ...accounts[2]! }])
  assert.deepEqual(missed!.data.pools, [])
  const old = await open({ 'last-event-id': '17' })
  assert.equal((await old.events(1))[0]!.data.accounts.length, 3)
  for (const stream of [stays, back, old]) stream.close()
})

test('of more than 500 accounts that change at once each is sent within two seconds', async () => {
  const { accounts, open } = await start(700)
  const stream = await open()
  assert.equal((await stream.events(1))[0]!.data.accounts.length, 700)
  for (const [index, each] of accounts.entries()) accounts[index] = { ...each, used: 1 }
  const [, one, two] = await stream.events(3)
  stream.close()
  assert.deepEqual([one!.data.accounts.length, two!.data.accounts.length], [500, 200])
  assert.equal(new Set([...one!.data.accounts, ...two!.data.accounts].map(({ id }) => id)).size, 700)
})

test('nothing is read without a reader, and once a second for all of them', async () => {
  const { open, reads } = await start(1)
  assert.equal(reads(), 0)
  const streams = await Promise.all([open(), open(), open()])
  const before = reads()
  await Promise.all(streams.map(({ events }) => events(3)))
  assert.ok(reads() - before <= 3, `${reads() - before} readings for two events of three readers`)
  for (const stream of streams) stream.close()
})

test('the 51st reader of the pools is refused', async () => {
  const { stub, open } = await start(1)
  const streams = await Promise.all(Array.from({ length: 50 }, () => open()))
  const refused = await fetch(`${stub.url}/api/v1/pools/stream`)
  assert.equal(refused.status, 429)
  assert.ok(Number(refused.headers.get('retry-after')) > 0)
  await refused.body?.cancel()
  for (const stream of streams) stream.close()
})

test('a tenant without a scope that reads all may not follow the pools', async (t) => {
  const signer = createSigner('ES256')
  const keyed = await startKeyed(t, signer)
  const token = tokenFor(signer, { tenant: 'alpha' })
  const { status, body } = await keyed.ask('GET', '/api/v1/pools/stream', { token })
  assert.deepEqual([status, body.code], [403, 'FORBIDDEN'])
})

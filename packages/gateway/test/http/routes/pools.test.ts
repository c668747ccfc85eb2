/** The routes of accounts: what they answer, and how an operator takes one out. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AccountPast, PoolDetails } from '../../../src/stages.ts'
import { startStub } from '../stub.ts'

const minute = { delivered: 2, failed: 0, rateLimited: 1 }
const report: PoolDetails = {
  channel: 'email',
  provider: 'smtp',
  rate: '100/s',
  carries: null,
  admits: 41.5,
  waiting: 7,
  retryBudget: 10,
  accounts: [
    {
      id: 'main',
      rate: '100/s',
      used: 3,
      status: 'healthy',
      blockedUntil: null,
      outSince: null,
      outUntil: null,
      outBecause: null,
      retryAfter: null,
      learnedRate: null,
      concurrency: 8,
      inFlight: 2,
      windows: [{ window: '100/s', marginMs: 20, used: 100, max: 100, freesAt: 1_800_000_000_000 }],
      p50Ms: 12,
      p99Ms: 210,
      perMinute: minute,
    },
    {
      id: 'b',
      rate: 'unlimited',
      used: 0,
      status: 'blocked',
      blockedUntil: 1_800_000_000_000,
      outSince: 1_800_000_000_000 - 3_600_000,
      outUntil: 1_800_000_000_000,
      outBecause: 'rate_limited',
      retryAfter: '3600',
      learnedRate: 2.5,
      concurrency: 1,
      inFlight: 0,
      windows: [],
      p50Ms: null,
      p99Ms: null,
      perMinute: { delivered: 0, failed: 0, rateLimited: 0 },
    },
  ],
}
const at = 1_800_000_000_000
const past: AccountPast = {
  changes: [
    { at, change: 'held', until: at + 1_000 },
    { at, change: 'resized', detail: '4 calls at once' },
  ],
  minutes: [{ at, ...minute }],
}
const now = Date.parse('2026-11-22T06:00:00Z')
const stub = await startStub({
  parts: {
    poolsView: { details: () => [report], past: (_, account) => (account === 'main' ? past : undefined) },
  },
})
stub.now = () => now

test('pools show each account, until when and why it is out, and what the pool carries', async () => {
  const { status, body } = await stub.ask('GET', '/pools')
  assert.equal(status, 200)
  const [main, blocked] = report.accounts
  const until = '2027-01-15T08:00:00.000Z'
  const windows = [{ ...main!.windows[0], freesAt: until }]
  const since = '2027-01-15T07:00:00.000Z'
  assert.deepEqual(body, {
    pools: [
      {
        ...report,
        accounts: [
          { ...main, windows },
          { ...blocked, blockedUntil: until, outUntil: until, outSince: since },
        ],
      },
    ],
  })
})

test('one account shows its last changes and the minutes of its last hour', async () => {
  const { status, body } = await stub.ask('GET', '/pools/email/main')
  assert.equal(status, 200)
  const instant = '2027-01-15T08:00:00.000Z'
  assert.deepEqual(
    [body.channel, body.provider, body.id, body.changes, body.minutes],
    [
      'email',
      'smtp',
      'main',
      [
        { at: instant, change: 'held', until: '2027-01-15T08:00:01.000Z' },
        { at: instant, change: 'resized', detail: '4 calls at once' },
      ],
      [{ at: instant, ...minute }],
    ],
  )
  assert.deepEqual((await stub.ask('GET', '/pools/email/b')).body.changes, [])
  assert.equal((await stub.ask('GET', '/pools/email/nobody')).body.code, 'NOT_FOUND')
})

test('an account is held until an instant, and asked again the hold is replaced', async () => {
  const path = '/pools/email/main/hold'
  const { status, body } = await stub.ask('PUT', path, { until: '2026-11-22T07:00:00Z', reason: 'new key' })
  assert.equal(status, 200)
  const hold = {
    name: 'email/main',
    channel: 'email',
    account: 'main',
    since: '2026-11-22T06:00:00.000Z',
    until: '2026-11-22T07:00:00.000Z',
    reason: 'new key',
  }
  assert.deepEqual(body, hold)
  stub.now = () => now + 1_000
  const later = { until: '2026-11-22T08:00:00+01:30', reason: 'newer key' }
  assert.deepEqual((await stub.ask('PUT', path, later)).body, {
    ...hold,
    until: '2026-11-22T06:30:00.000Z',
    reason: 'newer key',
  })
  assert.equal((await stub.ask('DELETE', path)).status, 204)
  assert.equal((await stub.ask('DELETE', path)).status, 204, 'again')
})

test('a hold of an unknown account is not found', async () => {
  const body = { until: '2027-01-01T00:00:00Z', reason: 'r' }
  for (const path of ['/pools/email/nobody/hold', '/pools/sms/main/hold', '/pools/fax/main/hold']) {
    const { status, body: problem } = await stub.ask('PUT', path, body)
    assert.deepEqual([status, problem.code], [404, 'NOT_FOUND'], path)
    assert.equal((await stub.ask('DELETE', path)).status, 404, path)
  }
})

test('a hold that ends in the past, in a month, or without a reason is refused at its field', async () => {
  stub.now = () => now
  const cases = [
    [{ until: '2026-11-22T06:00:00Z', reason: 'r' }, '/until', /future/],
    [{ until: '2026-12-24T06:00:00Z', reason: 'r' }, '/until', /31 days/],
    [{ until: '2h', reason: 'r' }, '/until', /RFC 3339/],
    [{ until: '2026-11-22T07:00:00Z' }, '/reason', /./],
    [{ reason: 'r' }, '/until', /./],
    [{ until: '2026-11-22T07:00:00Z', reason: 'a\nb' }, '/reason', /one line/],
    [{ until: '2026-11-22T07:00:00Z', reason: 'r', forever: true }, '/forever', /./],
  ] as const
  for (const [body, path, message] of cases) {
    const { status, body: problem } = await stub.ask('PUT', '/pools/email/main/hold', body)
    assert.deepEqual([status, problem.code, problem.errors[0]?.path], [400, 'INVALID_REQUEST', path])
    assert.match(problem.errors[0]!.message, message)
  }
})

/** The routes of accounts: what they answer, and how an operator takes one out. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startStub } from '../stub.ts'

const report = {
  channel: 'email' as const,
  provider: 'smtp',
  rate: '100/s',
  accounts: [
    {
      id: 'main',
      rate: '100/s',
      used: 3,
      status: 'healthy' as const,
      blockedUntil: null,
      outUntil: null,
      outBecause: null,
      learnedRate: null,
      concurrency: 8,
    },
    {
      id: 'b',
      rate: 'unlimited',
      used: 0,
      status: 'blocked' as const,
      blockedUntil: 1_800_000_000_000,
      outUntil: 1_800_000_000_000,
      outBecause: 'rate_limited' as const,
      learnedRate: 2.5,
      concurrency: 1,
    },
  ],
}
const now = Date.parse('2026-11-22T06:00:00Z')
const stub = await startStub({ parts: { pools: () => [report] } })
stub.now = () => now

test('pools show each account, and until when it is blocked', async () => {
  const { status, body } = await stub.ask('GET', '/pools')
  assert.equal(status, 200)
  const [main, blocked] = report.accounts
  const until = '2027-01-15T08:00:00.000Z'
  assert.deepEqual(body, {
    pools: [{ ...report, accounts: [main, { ...blocked, blockedUntil: until, outUntil: until }] }],
  })
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

/**
 * Clients read and write wall time, whatever the process's own time: the wall clock was set forward by an hour.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limitHeaders } from '../../src/http/limit-headers.ts'
import { message, startStub } from './stub.ts'

const hour = 3_600_000
const lineNow = Date.UTC(2026, 10, 21, 12)
const wall = (instant: number): string => new Date(instant + hour).toISOString()

const stub = await startStub({
  parts: {
    clock: {
      now: () => lineNow,
      monotonic: () => lineNow,
      aheadMs: () => hour,
      at: () => () => {},
      soon: (callback) => setImmediate(callback),
    },
    poolsView: {
      details: () => [
        {
          channel: 'email',
          provider: 'smtp',
          rate: '1/s',
          carries: 0,
          admits: null,
          waiting: 0,
          retryBudget: 10,
          accounts: [
            {
              id: 'a',
              rate: '1/s',
              used: 0,
              status: 'blocked',
              blockedUntil: lineNow + 5_000,
              outSince: lineNow - 5_000,
              outUntil: lineNow + 5_000,
              outBecause: 'rate_limited',
              learnedRate: null,
              concurrency: 1,
              retryAfter: '10',
              inFlight: 0,
              windows: [],
              p50Ms: null,
              p99Ms: null,
              perMinute: { delivered: 0, failed: 0, rateLimited: 1 },
            },
          ],
        },
      ],
      past: () => undefined,
    },
  },
})
stub.now = () => lineNow

test('an instant of a client is read and shown in wall time', async () => {
  const dates = { sendAt: wall(lineNow + 60_000), expiresAt: wall(lineNow + 120_000) }
  const posted = await stub.ask('POST', '/notifications', { ...message, ...dates })
  assert.equal(posted.status, 202, posted.text)
  const draft = stub.drafts.at(-1)!
  assert.deepEqual([draft.sendAt, draft.expiresAt], [lineNow + 60_000, lineNow + 120_000])
  const { body } = await stub.ask('GET', `/notifications/${posted.body.notificationId}`)
  assert.equal(body.createdAt, wall(lineNow))
  assert.equal(body.expiresAt, dates.expiresAt)
  assert.equal((body.timeline[0] as { at: string }).at, wall(lineNow))
  const past = await stub.ask('POST', '/notifications', { ...message, expiresAt: wall(lineNow - 1) })
  assert.equal(past.status, 400)
})

test('the bounds of a list are in wall time', async () => {
  await stub.ask('GET', `/notifications?from=${wall(lineNow - 1_000)}&to=${wall(lineNow + 1_000)}`)
  const { from, to } = stub.listed.at(-1)!
  assert.deepEqual([from, to], [lineNow - 1_000, lineNow + 1_000])
})

test('outUntil of an account is in wall time', async () => {
  const { body } = await stub.ask('GET', '/pools')
  const [account] = (body.pools as { accounts: { outUntil: string; blockedUntil: string }[] }[])[0]!.accounts
  assert.deepEqual([account!.outUntil, account!.blockedUntil], [wall(lineNow + 5_000), wall(lineNow + 5_000)])
})

test('a queued message shows in wall time when it is sent, and the remaining duration', async () => {
  stub.verdict = () => ({
    queuedBehind: 'tenant',
    decision: { outcome: 'delay', at: lineNow + 30_000, policyVersion: 'p', rules: [] },
  })
  const { status, body, headers } = await stub.ask('POST', '/notifications', message)
  assert.deepEqual([status, body.sendAt, headers.get('retry-after')], [429, wall(lineNow + 30_000), '30'])
})

test('X-RateLimit-Reset is in wall time, the seconds of the IETF fields are durations', () => {
  const row = {
    of: 'tenant',
    window: '1/min',
    windowMs: 60_000,
    max: 1,
    remaining: 0,
    resetAt: lineNow + 10_000,
  } as never
  const before = limitHeaders([row], lineNow)
  const ahead = limitHeaders([row], lineNow, hour)
  assert.equal(Number(ahead['x-ratelimit-reset']) - Number(before['x-ratelimit-reset']), 3_600)
  assert.equal(ahead.ratelimit, before.ratelimit)
})

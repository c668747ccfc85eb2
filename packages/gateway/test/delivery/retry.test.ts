import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Lease } from '../../src/delivery/pools/lease.ts'
import type { Route } from '../../src/delivery/pools/route.ts'
import { createRetries } from '../../src/delivery/retry.ts'
import { defaultRetryPolicy } from '../../src/delivery/retry-policy.ts'
import type { Notification } from '../../src/model.ts'
import type { SendResult } from '../../src/ports.ts'
import { broken, delivered, refused, throttled } from './scripted.ts'

const now = 1_000_000
const unknown: SendResult = { outcome: 'unknown', detail: 'reset' }
const recipientFault: SendResult = { outcome: 'failed', recipientFault: true, detail: 'their server is away' }

interface Setup {
  readonly idempotent?: boolean
  readonly others?: boolean
  readonly budget?: number
}

function setUp({ idempotent = false, others = true, budget = 100 }: Setup = {}) {
  let left = budget
  let sent = 0
  let kept = 0
  const leaseOf = (id: string): Lease =>
    ({
      account: { id },
      pool: {
        retry: { ...defaultRetryPolicy, capMs: 60_000, attemptsMax: 3 },
        provider: { idempotent },
        keepTurn: () => {
          kept += 1
        },
        budget: {
          take: () => left-- > 0,
          sent: () => {
            sent += 1
          },
        },
      },
    }) as unknown as Lease
  const route = { hasOther: () => others, exchange: () => leaseOf('other') } as unknown as Route
  const retries = createRetries({ random: { next: () => 0.5 } })
  const notification = (attempts: number) => ({ id: 'n', attempts, timeline: [] }) as unknown as Notification
  return {
    retries,
    retry: (attempts: number, result: SendResult) =>
      retries.retryOf(route, notification(attempts), result, leaseOf('a'), now),
    carrier: (attempts: number, id: string) =>
      retries.suited(route, notification(attempts), leaseOf(id), now).account.id,
    left: () => left,
    sent: () => sent,
    kept: () => kept,
  }
}

test('the first retry goes to another account at once, and later retries back off exponentially', () => {
  const { retry } = setUp()
  assert.deepEqual(retry(0, broken), { kind: 'elsewhere' })
  assert.deepEqual(retry(1, broken), { kind: 'later', at: now + 1_000 })
  assert.deepEqual(retry(2, broken), { kind: 'never' }, 'three calls are all')
  assert.deepEqual(setUp({ others: false }).retry(0, broken), { kind: 'later', at: now + 500 })
})

test('an unknown outcome is retried only if the provider is idempotent', () => {
  assert.deepEqual(setUp().retry(0, unknown), { kind: 'never' })
  assert.deepEqual(setUp({ idempotent: true }).retry(0, unknown), { kind: 'elsewhere' })
})

test('other outcomes are not retried and take no retry budget', () => {
  const { retry, left } = setUp()
  for (const result of [delivered, refused, throttled('1')])
    assert.deepEqual(retry(0, result), { kind: 'never' })
  assert.equal(left(), 100)
})

test('nothing is retried without retry budget, except a recipient fault, which needs neither budget nor another account', () => {
  const { retry } = setUp({ budget: 1 })
  assert.deepEqual(retry(0, broken), { kind: 'elsewhere' })
  assert.deepEqual(retry(0, broken), { kind: 'no_budget' })
  assert.deepEqual(retry(0, recipientFault), { kind: 'later', at: now + 500 })
})

test('first calls fund the retry budget, and a retry goes to an account that has not just failed', () => {
  const { retries, retry, carrier, sent } = setUp()
  assert.deepEqual([carrier(0, 'a'), sent()], ['a', 1])
  retry(0, broken)
  assert.deepEqual([carrier(1, 'a'), sent()], ['other', 1])
  assert.equal(carrier(1, 'a'), 'a', 'once')
  retry(0, broken)
  assert.equal(carrier(1, 'b'), 'b', 'another one already')
  retry(0, broken)
  retries.forget('n')
  assert.equal(carrier(1, 'a'), 'a')
})

test('a retry takes no turn of the round robin', () => {
  const { carrier, kept } = setUp()
  carrier(0, 'a')
  assert.equal(kept(), 0)
  carrier(1, 'a')
  assert.equal(kept(), 1)
})

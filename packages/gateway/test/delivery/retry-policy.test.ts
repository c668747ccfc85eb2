import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  backoffMs,
  defaultRetryPolicy,
  parseRetryAfter,
  retryAfterOnLine,
} from '../../src/delivery/retry-policy.ts'
import type { SendResult } from '../../src/ports.ts'

const now = Date.UTC(2026, 10, 21, 12, 0, 0)

const cases: readonly (readonly [string | undefined, number, string | undefined])[] = [
  ['18', 18_000, undefined],
  ['0', 0, undefined],
  ['Sat, 21 Nov 2026 12:00:30 GMT', 30_000, undefined],
  ['Saturday, 21-Nov-26 12:00:30 GMT', 30_000, undefined],
  ['Sat Nov 21 12:00:30 2026', 30_000, undefined],
  ['Sat, 21 Nov 2026 11:00:00 GMT', 0, undefined],
  [undefined, 5_000, 'missing'],
  ['', 5_000, 'missing'],
  ['soon', 5_000, 'invalid'],
  ['-1', 5_000, 'invalid'],
  ['1.5', 5_000, 'invalid'],
  ['2026-11-21', 5_000, 'invalid'],
  ['1e3', 5_000, 'invalid'],
  ['999999999', 86_400_000, 'clamped'],
  ['Sat, 21 Nov 2099 12:00:30 GMT', 86_400_000, 'clamped'],
]

for (const [value, ms, note] of cases) {
  test(`Retry-After ${JSON.stringify(value)} means ${ms} ms${note === undefined ? '' : ` (${note})`}`, () => {
    assert.deepEqual(parseRetryAfter(value, now, 5_000), note === undefined ? { ms } : { ms, note })
  })
}

test('backoff doubles its bound up to the cap, and full jitter covers the whole of it', () => {
  assert.equal(backoffMs(defaultRetryPolicy, 1, 0), 0)
  assert.equal(backoffMs(defaultRetryPolicy, 1, 0.5), 500)
  assert.equal(backoffMs(defaultRetryPolicy, 3, 0.5), 2_000)
  assert.equal(backoffMs(defaultRetryPolicy, 30, 0.999_999_9) < defaultRetryPolicy.capMs, true)
})

test('a date in Retry-After is converted from the wall clock, seconds are not', () => {
  const limited = (retryAfter: string): SendResult => ({ outcome: 'rate_limited', retryAfter, detail: '429' })
  const date = 'Sat, 21 Nov 2026 12:00:30 GMT'
  assert.deepEqual(retryAfterOnLine(limited(date), 0), limited(date))
  assert.deepEqual(retryAfterOnLine(limited(date), 3_600_000), limited('Sat, 21 Nov 2026 11:00:30 GMT'))
  assert.deepEqual(retryAfterOnLine(limited(date), -400), limited('Sat, 21 Nov 2026 12:00:31 GMT'))
  for (const other of ['30', 'soon'])
    assert.deepEqual(retryAfterOnLine(limited(other), 7_000), limited(other))
  assert.deepEqual(retryAfterOnLine({ outcome: 'delivered' }, 7_000), { outcome: 'delivered' })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limitHeaders } from '../../src/http/limit-headers.ts'

const now = Date.UTC(2026, 10, 21, 12)
const row = (of: 'tenant' | 'module', max: number, remaining: number, resetAt: number) =>
  ({ of, window: `${max}/min`, windowMs: 60_000, max, remaining, resetAt }) as const

test('the headers show both limits, and when the tighter one frees', () => {
  const headers = limitHeaders(
    [row('tenant', 100, 40, now + 50_000), row('module', 50, 3, now + 17_400)],
    now,
  )
  assert.deepEqual(headers, {
    'x-ratelimit-limit-tenant': '100',
    'x-ratelimit-remaining-tenant': '40',
    'x-ratelimit-limit-module': '50',
    'x-ratelimit-remaining-module': '3',
    'x-ratelimit-reset': String(now / 1_000 + 18),
    'ratelimit-policy': '"tenant-100/min";q=100;w=60, "module-50/min";q=50;w=60',
    ratelimit: '"tenant-100/min";r=40;t=50, "module-50/min";r=3;t=18',
  })
})

test('without limits there are no headers', () => {
  assert.deepEqual(limitHeaders([], now), {})
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compilePolicy } from '../../src/policy/compile.ts'
import { createLivePolicy } from '../../src/policy/live-policy.ts'
import type { Policy } from '../../src/policy/policy.ts'

const before = compilePolicy({ version: 1, limits: [] })
const after = compilePolicy({
  version: 1,
  deduplication: { window: '1min' },
  digests: [{ name: 'news', for: { category: 'newsletter' }, window: '1h', template: 'news' }],
  limits: [{ name: 'all', for: 'any', max: '3/day', over: 'delay' }],
})

test('every property of the policy in force is read, and those of the next one once it is in force', () => {
  const live = createLivePolicy(before)
  for (const next of [after, before]) {
    live.replace(next)
    assert.deepEqual(Object.keys(live.part), Object.keys(next))
    for (const name of Object.keys(next) as (keyof Policy)[]) assert.equal(live.part[name], next[name], name)
  }
})

test('a property that policies are given later is passed on without being named', () => {
  const later = { ...before, holidays: ['2026-12-25'] }
  assert.deepEqual((createLivePolicy(later).part as typeof later).holidays, ['2026-12-25'])
})

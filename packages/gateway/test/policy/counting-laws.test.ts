import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLimits, memoryStore } from '@sluice/limits'
import fc from 'fast-check'
import type { Channel } from '../../src/model.ts'
import { limitName } from '../../src/policy/counter.ts'
import type { Policy } from '../../src/policy/policy.ts'
import type { Countable } from '../../src/ports.ts'
import { notification, policyWith, seed } from './policies.ts'

/** `name@stream` of the recipient's limits. */
function counted(policy: Policy, given: Partial<Countable> = {}): readonly string[] {
  return policy
    .rulesFor(notification(given))
    .at(-1)!
    .rules.map((rule) => `${rule.name}@${rule.stream}`)
}

// ---- laws

/** Values that imitate several values. */
const value = fc.constantFrom('a', 'b', 'a+b', 'a,category=a', 'a,module=b', 'a,category=a,module=b')
const some = fc.uniqueArray(value, { minLength: 1, maxLength: 2 })
const channel = fc.constantFrom<Channel>('email', 'sms')
const selected = fc
  .tuple(
    fc.record({ category: some, channel, module: some, template: some }),
    fc.subarray(['category', 'channel', 'module', 'template'] as const, { minLength: 1 }),
  )
  .map(([fields, keys]) => Object.fromEntries(keys.map((key) => [key, fields[key]])))
const per = ['actor', 'category', 'channel', 'module', 'recipient', 'template', 'tenant'] as const
const limit = fc.record({
  for: fc.oneof(selected, fc.constantFrom('any', 'otherwise')),
  per: fc.shuffledSubarray([...per], { minLength: 1, maxLength: 4 }),
  max: fc.constant('3/day'),
})
const randomPolicy = fc
  .array(limit, { minLength: 1, maxLength: 6, size: 'max' })
  .map((limits) => limits.map((each, index) => ({ ...each, name: `limit-${index}` })))
const countable = fc
  .record({
    category: value,
    template: value,
    module: value,
    actor: value,
    channel,
    to: fc.record({ id: fc.constantFrom('a', 'b') }),
  })
  .map((given) => notification(given))

/** Computes directly whether a limit matches a notification. */
function suitsPlainly(selector: object | string, of: Countable): boolean {
  if (selector === 'any') return true
  if (typeof selector === 'string') return false
  return Object.entries(selector).every(([key, allowed]) => [allowed].flat().includes(of[key as 'category']))
}

test('otherwise counts exactly what no limit that names a category or channel counts', () => {
  fc.assert(
    fc.property(randomPolicy, countable, (limits, of) => {
      const counting = policyWith(limits).rulesFor(of)
      const names = counting.flatMap(({ rules }) => rules.map((rule) => rule.name))
      const isNamed = limits.some(
        ({ for: selector }) =>
          typeof selector === 'object' &&
          ('category' in selector || 'channel' in selector) &&
          suitsPlainly(selector, of),
      )
      const expected = limits.filter((each) =>
        each.for === 'otherwise' ? !isNamed : suitsPlainly(each.for, of),
      )
      assert.deepEqual(names.toSorted(), expected.map((each) => each.name).toSorted())
    }),
    { seed, numRuns: 2_000 },
  )
})

test('notifications share a stream exactly where selector and counted values are the same', () => {
  const many = fc.array(countable, { minLength: 40, maxLength: 40 })
  fc.assert(
    fc.property(randomPolicy, many, (limits, notifications) => {
      const policy = policyWith(limits)
      const meanings = new Map<string, string>()
      const places = new Map<string, string>()
      for (const of of notifications) {
        for (const { subject, rules } of policy.rulesFor(of)) {
          for (const rule of rules) {
            const place = `${subject.key} ${rule.stream}`
            const meaning = meaningOf(limits.find((each) => each.name === rule.name)!, of)
            assert.equal(meanings.get(place) ?? meaning, meaning, `two meanings of ${place}`)
            assert.equal(places.get(meaning) ?? place, place, `two places of ${meaning}`)
            meanings.set(place, meaning)
            places.set(meaning, place)
          }
        }
      }
    }),
    { seed, numRuns: 300 },
  )
})

/** The values by which a limit counts a notification, in one form whatever their order. */
function meaningOf(
  limit: { for: object | string; per: readonly (typeof per)[number][] },
  of: Countable,
): string {
  const selector =
    typeof limit.for === 'string'
      ? limit.for
      : Object.entries(limit.for)
          .map(([key, allowed]) => [key, [allowed].flat().toSorted()])
          .toSorted()
  const values = limit.per
    .filter((field) => field !== 'tenant')
    .toSorted()
    .map((field) => [field, field === 'recipient' ? of.to.id : of[field]])
  return JSON.stringify([selector, values])
}

test('streams of any length fit the limiter and stay distinct', () => {
  const policy = policyWith([{ name: 'x', for: 'any', per: ['recipient', 'actor'], max: '1/day' }])
  const long = '/'.repeat(400)
  const streams = ['', '1', '2'].map((end) => counted(policy, { actor: long + end })[0]!.slice('x@'.length))
  assert.equal(new Set(streams).size, 3)
  for (const stream of streams) assert.ok(stream.length <= 512)
})

// ---- with the limiter

test('the limiter accepts the limits of the policy: a digest counts for each author, a critical notification counts and passes', () => {
  let now = 1_000_000_000_000
  const limits = createLimits({ store: memoryStore({ now: () => now }) }).sync
  const policy = policyWith(
    [{ name: 'per-author', for: 'any', per: ['recipient', 'actor'], max: '1/day', over: 'drop' }],
    { critical: { max: '2/h' } },
  )
  const reserve = (id: string, given: Partial<Countable>) => {
    now += 1
    const { subject, rules } = policy.rulesFor(notification(given)).at(-1)!
    return limits.reserve(subject.key, rules, { id })
  }
  assert.equal(reserve('digest', { actors: ['bob', 'eve', ''] }).held, true)
  for (const actor of ['bob', 'eve']) {
    const refused = reserve(`by-${actor}`, { actor })
    assert.deepEqual([refused.held, refused.refusedBy], [false, ['per-author']])
  }
  assert.equal(reserve('by-nobody', {}).held, false)
  const mixed = reserve('mixed', { actors: ['new', 'eve'] })
  assert.deepEqual(mixed.refusedBy.map(limitName), ['per-author'])
  assert.equal(reserve('by-new', { actor: 'new' }).held, true, 'what was refused counted for nobody')
  for (const id of ['c1', 'c2']) assert.equal(reserve(id, { actor: 'ann', priority: 'critical' }).at, now)
  assert.ok(reserve('c3', { actor: 'ann', priority: 'critical' }).at > now, 'the third within an hour waits')
  assert.equal(reserve('by-ann', { actor: 'ann' }).held, false, 'critical ones count in the other limits')
})

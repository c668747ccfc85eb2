import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLimits, memoryStore } from '@sluice/limits'
import fc from 'fast-check'
import type { Channel } from '../../src/model.ts'
import { limitName } from '../../src/policy/counter.ts'
import type { Policy } from '../../src/policy/policy.ts'
import type { Countable } from '../../src/ports.ts'
import { defaultPolicy, notification, policyWith, seed } from './policies.ts'

/** `name@stream` of the person's limits. */
function counted(policy: Policy, given: Partial<Countable> = {}): readonly string[] {
  return policy
    .rulesFor(notification(given))
    .at(-1)!
    .rules.map((rule) => `${rule.name}@${rule.stream}`)
}

/** What each limit does, and its windows. */
function bounds(policy: Policy, given: Partial<Countable> = {}): readonly string[] {
  const { rules } = policy.rulesFor(notification(given)).at(-1)!
  return rules.map(
    (rule) => `${rule.name} ${rule.over} ${rule.windows.map((window) => window.text).join(' ')}`,
  )
}

const everything = 'everything delay 100/30min 1/1s'
const table: readonly (readonly [category: string, channel: Channel, expected: string])[] = [
  ['security', 'email', 'security-email delay 10/h 50/day'],
  ['security', 'sms', 'security-sms delay 5/h 20/day'],
  ['security', 'push', 'security-push delay 20/h 100/day'],
  ['security', 'slack', 'other delay 5/day'],
  ['billing', 'email', 'billing-email delay 3/day 10/week'],
  ['billing', 'sms', 'billing-sms delay 2/day 5/week'],
  ['billing', 'push', 'other delay 5/day'],
  ['marketing', 'email', 'marketing-email refuse 2/day 5/week 10/month'],
  ['marketing', 'sms', 'marketing-sms refuse 1/day 3/week 8/month'],
  ['marketing', 'push', 'marketing-push refuse 3/day 10/week'],
  ['marketing', 'telegram', 'other delay 5/day'],
  ['product', 'email', 'product-email delay 5/day 15/week'],
  ['product', 'push', 'product-push delay 5/h 20/day'],
  ['product', 'sms', 'other delay 5/day'],
  ['weather', 'webhook', 'other delay 5/day'],
]

for (const [category, channel, expected] of table) {
  test(`by default ${category} by ${channel} meets ${expected.split(' ')[0]}`, () => {
    assert.deepEqual(bounds(defaultPolicy, { category, channel }), [expected, everything])
  })
}

test('by default activity counts per author and per channel', () => {
  assert.deepEqual(bounds(defaultPolicy, { category: 'activity', actor: 'bob' }), [
    'activity-per-author refuse 3/day',
    'activity refuse 5/day',
    everything,
  ])
  assert.deepEqual(counted(defaultPolicy, { category: 'activity', actor: 'bob', channel: 'push' }), [
    'activity-per-author@category=activity|actor=bob',
    'activity@category=activity|channel=push',
    'everything@any',
  ])
})

test('what no limit names counts per category and channel', () => {
  assert.deepEqual(counted(defaultPolicy, { category: 'weather', channel: 'slack' }), [
    'other@otherwise|category=weather,channel=slack',
    'everything@any',
  ])
})

test("a person's subject is always there, and last", () => {
  const subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
  assert.deepEqual(policyWith([]).rulesFor(notification()), [{ subject, rules: [] }])
  const elsewhere = policyWith([
    { name: 'p', for: 'any', max: '1/day' },
    { name: 't', for: 'any', per: 'tenant', max: '9/day' },
  ])
  const [first, last, ...more] = elsewhere.rulesFor(notification())
  assert.deepEqual(first?.subject, { key: 'acme//', tenant: 'acme' })
  assert.deepEqual(last?.subject, subject)
  assert.equal(more.length, 0)
})

test('notifications of one kind get the same array of the same limits', () => {
  const rules = (given: Partial<Countable>) => defaultPolicy.rulesFor(notification(given)).at(-1)!.rules
  assert.equal(
    rules({ to: { id: 'a' } }),
    rules({ to: { id: 'b' }, tenant: 'other', module: 'm', template: 't' }),
  )
  assert.equal(
    rules({ category: 'activity', actor: 'a' }),
    rules({ category: 'activity', actor: 'a', to: { id: 'b' } }),
  )
  assert.notEqual(rules({ category: 'activity', actor: 'a' }), rules({ category: 'activity', actor: 'b' }))
  // the limits that do not depend on the author are shared all the same
  assert.equal(rules({ category: 'activity', actor: 'a' })[1], rules({ category: 'activity', actor: 'b' })[1])
})

test('limits with the same selector and values share a stream', () => {
  const policy = policyWith([
    { name: 'few', for: { channel: ['push', 'email'], category: 'a' }, max: '1/h' },
    {
      name: 'many',
      for: { category: ['a'], channel: ['email', 'push', 'email'] },
      per: ['tenant', 'recipient'],
      max: '9/day',
    },
    { name: 'other', for: { category: 'a', channel: 'email' }, max: '9/day' },
  ])
  assert.deepEqual(counted(policy, { category: 'a' }), [
    'few@category=a,channel=email+push',
    'many@category=a,channel=email+push',
    'other@category=a,channel=email',
  ])
})

test('a value that the notification lacks counts as empty', () => {
  const policy = policyWith([
    { name: 'x', for: 'any', per: ['recipient', 'actor', 'template'], max: '1/day' },
  ])
  assert.deepEqual(counted(policy), ['x@any|actor=,template='])
})

test('a digest counts once for every author in it, and once for the rest', () => {
  const actors = ['bob', 'eve', 'bob', '']
  const marked = counted(defaultPolicy, { category: 'activity', actors })
  assert.deepEqual(
    marked.map((each) => each.split('@')[1]),
    [
      'category=activity|actor=bob',
      'category=activity|actor=eve',
      'category=activity|actor=',
      'category=activity|channel=email',
      'any',
    ],
  )
  const names = marked.map((each) => each.split('@')[0]!)
  assert.equal(new Set(names).size, names.length, 'the limiter wants different names in one call')
  assert.deepEqual(names.map(limitName), [
    'activity-per-author',
    'activity-per-author',
    'activity-per-author',
    'activity',
    'everything',
  ])
})

test('a digest counts in the streams of what its items would have counted in', () => {
  const streams = (given: Partial<Countable>) =>
    defaultPolicy
      .rulesFor(notification({ category: 'activity', ...given }))
      .at(-1)!
      .rules.map((rule) => rule.stream)
  const apart = ['bob', 'eve'].flatMap((actor) => streams({ actor }))
  assert.deepEqual(new Set(streams({ actors: ['bob', 'eve'] })), new Set(apart))
})

test('critical ones count in every limit, and only their own can refuse', () => {
  assert.deepEqual(bounds(defaultPolicy, { category: 'marketing', priority: 'critical' }), [
    'critical delay 30/h',
    'marketing-email count 2/day 5/week 10/month',
    'everything count 100/30min 1/1s',
  ])
  const streams = (priority: 'critical' | 'normal') =>
    counted(defaultPolicy, { category: 'marketing', priority })
  assert.deepEqual(streams('critical'), ['critical@critical', ...streams('normal')])
})

test('without a section for critical ones nothing refuses them', () => {
  const limits = [
    { name: 'never', for: 'any', max: '0/day', over: 'drop' },
    { name: 'tenant', for: 'any', per: 'tenant', max: '0/day' },
  ]
  const subjects = policyWith(limits).rulesFor(notification({ priority: 'critical' }))
  assert.deepEqual(
    subjects.flatMap(({ rules }) => rules.map((rule) => rule.over)),
    ['count', 'count'],
  )
})

test('a limit of critical ones that drops refuses', () => {
  const policy = policyWith([], { critical: { max: '1/h', over: 'drop' } })
  assert.deepEqual(bounds(policy, { priority: 'critical' }), ['critical refuse 1/h'])
  assert.deepEqual(bounds(policy, { priority: 'high' }), [])
})

test('an unlimited limit counts nothing, and still takes its like away from otherwise', () => {
  const policy = policyWith([
    { name: 'free', for: { category: 'a' }, max: 'unlimited' },
    { name: 'rest', for: 'otherwise', max: '1/day' },
  ])
  assert.deepEqual(counted(policy, { category: 'a' }), [])
  assert.deepEqual(counted(policy, { category: 'b' }), ['rest@otherwise'])
})

test('a limit of a distance alone counts', () => {
  assert.deepEqual(bounds(policyWith([{ name: 'gap', for: 'any', minGap: '300ms' }])), ['gap delay 1/300ms'])
})

test('limits select by template, module and priority, one or several', () => {
  const policy = policyWith([
    { name: 'template', for: { template: 'welcome' }, max: '1/day' },
    { name: 'module', for: { module: ['shop', 'blog'] }, max: '1/day' },
    { name: 'urgent', for: { priority: ['high'] }, max: '1/day' },
    { name: 'rest', for: 'otherwise', max: '1/day' },
  ])
  const names = (given: Partial<Countable>) =>
    policy
      .rulesFor(notification(given))
      .at(-1)!
      .rules.map((rule) => rule.name)
  assert.deepEqual(names({ template: 'welcome', module: 'x' }), ['template', 'rest'])
  assert.deepEqual(names({ module: 'blog' }), ['module', 'rest'])
  assert.deepEqual(names({ module: 'x', priority: 'high' }), ['urgent', 'rest'])
  assert.deepEqual(names({ module: 'x' }), ['rest'])
})

// ---- not per recipient

const perOthers = policyWith([
  { name: 'address', for: { channel: ['email', 'sms'] }, per: 'address', max: '1/day' },
  { name: 'address-too', for: 'any', per: ['address'], max: '9/week', over: 'drop' },
  { name: 'actor', for: 'any', per: ['actor'], max: '1/day' },
  { name: 'module', for: 'any', per: ['module', 'channel'], max: '1/day' },
])

function keys(given: Partial<Countable>, person?: { id: string; email?: string }): readonly string[] {
  return perOthers
    .rulesFor(notification(given), person)
    .map(({ subject, rules }) => `${subject.key}: ${rules.map((rule) => rule.name).join()}`)
}

test('limits that count by the same values share a subject, others have their own', () => {
  assert.deepEqual(keys({ actor: 'bob' }), [
    'acme//address=ada@example.com: address,address-too',
    'acme//actor=bob: actor',
    'acme//channel=email,module=shop: module',
    'acme/ada: ',
  ])
})

test('addresses of mail count without regard to case, others to the letter', () => {
  assert.equal(
    keys({ to: { id: 'x', email: 'Ada@Example.COM' } })[0],
    'acme//address=ada@example.com: address,address-too',
  )
  assert.equal(
    keys({ to: { id: 'x', slackChannel: 'C0AB' }, channel: 'slack' })[0],
    'acme//address=C0AB: address-too',
  )
})

test('the stored address counts where the request brings none', () => {
  assert.equal(
    keys({ to: { id: 'x' } }, { id: 'x', email: 'old@example.com' })[0],
    'acme//address=old@example.com: address,address-too',
  )
  assert.equal(
    keys({ to: { id: 'x', email: 'new@example.com' } }, { id: 'x', email: 'old@example.com' })[0],
    'acme//address=new@example.com: address,address-too',
  )
  assert.equal(keys({ to: { id: 'x' } })[0], 'acme//address=: address,address-too')
})

test('a digest has a subject for each author where authors are counted by themselves', () => {
  const subjects = keys({ actors: ['bob', 'eve'] })
  assert.deepEqual(
    subjects.filter((key) => key.includes('actor')),
    ['acme//actor=bob: actor', 'acme//actor=eve: actor'],
  )
})

test('tenants share no subject', () => {
  const of = (tenant: string) =>
    perOthers.rulesFor(notification({ tenant })).map(({ subject }) => subject.key)
  assert.equal(
    of('acme').some((key) => of('acme2').includes(key)),
    false,
  )
})

// ---- laws

/** Values that pretend to be several. */
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

/** What a limit says about a notification, worked out the long way. */
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

test('events meet in one stream exactly where selector and counted values are the same', () => {
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

/** What a limit counts a notification by, in one form whatever the order in which it is written. */
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

test('streams of any length fit the limiter and stay apart', () => {
  const policy = policyWith([{ name: 'x', for: 'any', per: ['recipient', 'actor'], max: '1/day' }])
  const long = '/'.repeat(400)
  const streams = ['', '1', '2'].map((end) => counted(policy, { actor: long + end })[0]!.slice('x@'.length))
  assert.equal(new Set(streams).size, 3)
  for (const stream of streams) assert.ok(stream.length <= 512)
})

// ---- with the limiter

test('the limiter takes what the policy gives: a digest counts for each author, a critical one counts and passes', () => {
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

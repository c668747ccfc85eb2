import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Channel } from '../../src/model.ts'
import { limitName } from '../../src/policy/counter.ts'
import type { Policy } from '../../src/policy/policy.ts'
import type { Countable } from '../../src/ports.ts'
import { defaultPolicy, notification, policyWith } from './policies.ts'

/** `name@stream` of the recipient's limits. */
function counted(policy: Policy, given: Partial<Countable> = {}): readonly string[] {
  return policy
    .rulesFor(notification(given))
    .at(-1)!
    .rules.map((rule) => `${rule.name}@${rule.stream}`)
}

/** The outcome and windows of each limit. */
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

test('notifications that no limit names count per category and channel', () => {
  assert.deepEqual(counted(defaultPolicy, { category: 'weather', channel: 'slack' }), [
    'other@otherwise|category=weather,channel=slack',
    'everything@any',
  ])
})

test("a recipient's subject is always there, and last", () => {
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

test('a digest counts once for every author in it, and once in the other limits', () => {
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

test('a digest counts in the streams of its items', () => {
  const streams = (given: Partial<Countable>) =>
    defaultPolicy
      .rulesFor(notification({ category: 'activity', ...given }))
      .at(-1)!
      .rules.map((rule) => rule.stream)
  const apart = ['bob', 'eve'].flatMap((actor) => streams({ actor }))
  assert.deepEqual(new Set(streams({ actors: ['bob', 'eve'] })), new Set(apart))
})

test('critical notifications count in every limit, and only the critical limit can refuse them', () => {
  assert.deepEqual(bounds(defaultPolicy, { category: 'marketing', priority: 'critical' }), [
    'critical delay 30/h',
    'marketing-email count 2/day 5/week 10/month',
    'everything count 100/30min 1/1s',
  ])
  const streams = (priority: 'critical' | 'normal') =>
    counted(defaultPolicy, { category: 'marketing', priority })
  assert.deepEqual(streams('critical'), ['critical@critical', ...streams('normal')])
})

test('without a critical section nothing refuses critical notifications', () => {
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

test('a critical limit with drop refuses', () => {
  const policy = policyWith([], { critical: { max: '1/h', over: 'drop' } })
  assert.deepEqual(bounds(policy, { priority: 'critical' }), ['critical refuse 1/h'])
  assert.deepEqual(bounds(policy, { priority: 'high' }), [])
})

test('an unlimited limit counts nothing, and still excludes its notifications from otherwise', () => {
  const policy = policyWith([
    { name: 'free', for: { category: 'a' }, max: 'unlimited' },
    { name: 'rest', for: 'otherwise', max: '1/day' },
  ])
  assert.deepEqual(counted(policy, { category: 'a' }), [])
  assert.deepEqual(counted(policy, { category: 'b' }), ['rest@otherwise'])
})

test('a limit with only a minimum gap counts', () => {
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

function keys(given: Partial<Countable>, recipient?: { id: string; email?: string }): readonly string[] {
  return perOthers
    .rulesFor(notification(given), recipient)
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

test('mail addresses count case-insensitively, others to the letter', () => {
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

test('a digest has a subject for each author in limits per author', () => {
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

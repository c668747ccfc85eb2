import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { SluiceError } from '../../src/errors.ts'
import type { JsonObject, JsonValue } from '../../src/model.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import { defaultDocument, defaultPolicy, notification, policyWith, seed } from './policies.ts'

const hourMs = 3_600_000
const dayMs = 24 * hourMs

test('the default policy has the promised limits', () => {
  assert.equal(defaultPolicy.maxDelayMs, 7 * dayMs)
  assert.equal(defaultPolicy.deduplicationWindowMs, hourMs)
  assert.equal(defaultPolicy.spreadMs, 600_000)
  assert.equal(defaultPolicy.longestWindowMs, 30 * dayMs)
})

test('a missing section is off', () => {
  const policy = compilePolicy({})
  assert.equal(policy.maxDelayMs, 7 * dayMs)
  assert.equal(policy.deduplicationWindowMs, undefined)
  assert.equal(policy.spreadMs, 0)
  assert.equal(policy.longestWindowMs, 0)
  assert.deepEqual(policy.rulesFor(notification())[0]?.rules, [])
  assert.equal(policy.digestFor(notification()), undefined)
  assert.deepEqual(policy.quietFor(notification(), {}), [])
})

test('a spread of nothing is what a missing one is: all leave at the end', () => {
  assert.equal(compilePolicy({ quietHours: { spread: '0s' } }).spreadMs, 0)
})

test('the longest window is that of any limit, its minimum gap or the critical limit', () => {
  assert.equal(policyWith([{ name: 'a', for: 'any', max: '1/h, 1/2day' }]).longestWindowMs, 2 * dayMs)
  assert.equal(policyWith([{ name: 'a', for: 'any', max: '1/h', minGap: '3h' }]).longestWindowMs, 3 * hourMs)
  assert.equal(policyWith([], { critical: { max: '5/week' } }).longestWindowMs, 7 * dayMs)
})

test('the shortest window is that of any limit, its minimum gap or the critical limit', () => {
  assert.equal(policyWith([{ name: 'a', for: 'any', max: '1/h, 1/2day' }]).shortestWindowMs, hourMs)
  assert.equal(policyWith([{ name: 'a', for: 'any', max: '1/h', minGap: '100ms' }]).shortestWindowMs, 100)
  assert.equal(policyWith([], { critical: { max: '5/week' } }).shortestWindowMs, 7 * dayMs)
  assert.equal(compilePolicy({}).shortestWindowMs, Number.POSITIVE_INFINITY)
})

// ---- digests

test('by default comments, followers and other activity are collected, each in its digest', () => {
  const name = (template: string | undefined, category: string) =>
    defaultPolicy.digestFor(notification({ category, ...(template === undefined ? {} : { template }) }))?.name
  assert.equal(name('new-comment', 'activity'), 'new-comment')
  assert.equal(name('new-follower', 'product'), 'new-follower')
  assert.equal(name('new-like', 'activity'), 'activity')
  assert.equal(name(undefined, 'activity'), 'activity')
  assert.equal(name('welcome', 'product'), undefined)
})

test('the default digests have the promised figures', () => {
  assert.deepEqual(defaultPolicy.digest('new-comment'), {
    name: 'new-comment',
    windowMs: hourMs,
    minItems: 3,
    maxItems: 50,
    template: 'activity-digest',
  })
  assert.deepEqual(defaultPolicy.digest('new-follower'), {
    name: 'new-follower',
    windowMs: dayMs,
    minItems: 5,
    maxItems: 100,
    template: 'follower-digest',
  })
  assert.equal(defaultPolicy.digest('none'), undefined)
})

test('the first matching digest wins, and critical notifications are never collected', () => {
  const digest = { window: '1h', template: 't' }
  const digests = [
    { ...digest, name: 'some', for: { priority: ['low', 'critical'], module: 'shop' } },
    { ...digest, name: 'all', for: 'any' },
  ]
  const policy = policyWith([], { digests })
  assert.equal(policy.digestFor(notification({ priority: 'low' }))?.name, 'some')
  assert.equal(policy.digestFor(notification({ priority: 'low', module: 'blog' }))?.name, 'all')
  assert.equal(policy.digestFor(notification())?.name, 'all')
  assert.equal(policy.digestFor(notification({ priority: 'critical' })), undefined)
})

// ---- the strongest outcome

const each = { for: { channel: 'sms' }, max: '1/day' }
const strengths = policyWith(
  [
    { ...each, name: 'wait', over: 'delay' },
    { ...each, name: 'move', over: 'fallback:email' },
    { ...each, name: 'move-too', over: 'fallback:push' },
    { ...each, name: 'collect', over: 'digest:d' },
    { ...each, name: 'lose', over: 'drop' },
    { ...each, name: 'lose-too', over: 'drop' },
  ],
  { digests: [{ name: 'd', for: { template: 't' }, window: '1h', template: 't' }], critical: { max: '1/h' } },
)
const order = ['lose', 'lose-too', 'collect', 'move', 'move-too', 'critical', 'wait']

test('drop wins before digest, fallback and delay, and among equals the first of the policy', () => {
  fc.assert(
    fc.property(fc.shuffledSubarray(order, { minLength: 1 }), (names) => {
      assert.equal(
        strengths.strongest(names).limit,
        order.find((name) => names.includes(name)),
      )
    }),
    { seed, numRuns: 500 },
  )
})

test('the strongest limit gives the outcome', () => {
  assert.deepEqual(strengths.strongest(['wait', 'collect']), {
    limit: 'collect',
    over: { kind: 'digest', digest: 'd' },
  })
  assert.deepEqual(strengths.strongest(['move-too', 'wait']), {
    limit: 'move-too',
    over: { kind: 'fallback', channel: 'push' },
  })
  assert.deepEqual(strengths.strongest(['critical']), { limit: 'critical', over: { kind: 'delay' } })
})

test('a limit that is marked with an author is known by its own name', () => {
  const { rules } = defaultPolicy.rulesFor(notification({ category: 'activity', actors: ['a', 'b'] })).at(-1)!
  assert.deepEqual(defaultPolicy.strongest([rules[1]!.name]), {
    limit: 'activity-per-author',
    over: { kind: 'digest', digest: 'activity' },
  })
})

test('without a refusing or known limit the outcome is delay', () => {
  assert.deepEqual(strengths.strongest([]), { limit: '', over: { kind: 'delay' } })
  assert.deepEqual(strengths.strongest(['gone']), { limit: 'gone', over: { kind: 'delay' } })
})

// ---- version and document

const same: readonly (readonly [why: string, one: object, other: object])[] = [
  [
    'the order of keys',
    { name: 'a', for: { channel: 'sms', category: 'b' }, max: '1/day' },
    { max: '1/day', for: { category: 'b', channel: 'sms' }, name: 'a' },
  ],
  [
    'a list of one',
    { name: 'a', for: { channel: 'sms' }, max: '1/day' },
    { name: 'a', for: { channel: ['sms'] }, max: ['1/day'] },
  ],
  [
    'the order of values',
    { name: 'a', for: { channel: ['sms', 'push'] }, max: '1/day' },
    { name: 'a', for: { channel: ['push', 'sms', 'push'] }, max: '1/day' },
  ],
  [
    'a default said',
    { name: 'a', for: 'any', max: '1/day' },
    { name: 'a', for: 'any', per: 'recipient', max: '1/day', over: 'delay' },
  ],
  [
    'the unit',
    { name: 'a', for: 'any', max: '1/day', minGap: '60s' },
    { name: 'a', for: 'any', max: '1/24h', minGap: '1min' },
  ],
  [
    'the tenant, beside another',
    { name: 'a', for: 'any', per: 'recipient', max: '1/day' },
    { name: 'a', for: 'any', per: ['tenant', 'recipient'], max: '1/day' },
  ],
  [
    'white space',
    { name: 'a', for: 'any', max: '1/day, 2/week' },
    { name: 'a', for: 'any', max: [' 1 / day', '2/week '] },
  ],
]

for (const [why, one, other] of same) {
  test(`${why} does not change the version`, () => {
    assert.equal(policyWith([one]).version, policyWith([other]).version)
  })
}

test('every change of meaning changes the version', () => {
  const base = { name: 'a', for: { category: 'b' }, max: '1/day' }
  const documents: readonly object[] = [
    {},
    { limits: [base] },
    { limits: [{ ...base, name: 'b' }] },
    { limits: [{ ...base, max: '2/day' }] },
    { limits: [{ ...base, max: '1/week' }] },
    { limits: [{ ...base, minGap: '1s' }] },
    { limits: [{ ...base, over: 'drop' }] },
    { limits: [{ ...base, per: 'tenant' }] },
    { limits: [{ ...base, for: { channel: 'sms' } }] },
    { limits: [base, { ...base, name: 'b' }] },
    { limits: [{ ...base, name: 'b' }, base] },
    { limits: [base], maxDelay: '1d' },
    { limits: [base], deduplication: { window: '1h' } },
    { limits: [base], critical: { max: '1/h' } },
    { limits: [base], digests: [{ name: 'd', for: 'any', window: '1h', template: 't' }] },
    { limits: [base], quietHours: { default: { from: '22:00', to: '08:00' } } },
    { limits: [base], quietHours: { default: { from: '22:00', to: '07:00' } } },
    { limits: [base], quietHours: { unknownTimeZone: 'Europe/Rome' } },
    { limits: [base], quietHours: { legal: [{ allowed: '08:00-21:00' }] } },
    { limits: [base], quietHours: { legal: [{ allowed: '08:00-21:00' }], spread: '1min' } },
  ]
  const versions = documents.map((document) => compilePolicy(document).version)
  assert.equal(new Set(versions).size, documents.length)
  for (const version of versions) assert.match(version, /^[0-9a-f]{16}$/)
})

test('the written-out document has the same meaning as its source', () => {
  const { document, version } = defaultPolicy
  assert.deepEqual(compilePolicy(document).document, document)
  assert.equal(compilePolicy(document).version, version)
  const [limit] = document.limits as readonly JsonObject[]
  assert.deepEqual(limit, {
    name: 'security-email',
    for: { category: 'security', channel: 'email' },
    per: ['recipient'],
    max: ['10/h', '50/day'],
    over: 'delay',
  })
})

test('the written-out document is plain JSON that shares nothing with its source', () => {
  const original = defaultDocument()
  const { document } = compilePolicy(original)
  const before = JSON.stringify(document)
  ;(original.limits as object[]).length = 0
  assert.equal(JSON.stringify(document), before)
  assert.deepEqual(JSON.parse(before), document)
})

test('limits that no notification has met yet can be listed by their selectors', () => {
  const policy = policyWith([
    { name: 'a', for: { category: ['x', 'y'], channel: ['sms', 'push'] }, max: '1/day' },
    { name: 'b', for: { template: 't', category: 'x' }, max: '1/day' },
    { name: 'c', for: 'any', max: '1/day' },
    { name: 'd', for: { category: 'x', channel: 'sms' }, max: '1/day' },
  ])
  assert.deepEqual(policy.selectors, [
    { channel: 'push', category: 'x' },
    { channel: 'push', category: 'y' },
    { channel: 'sms', category: 'x' },
    { channel: 'sms', category: 'y' },
    { category: 'x', template: 't' },
    {},
  ])
})

// ---- any input

test('any input compiles or is refused as INVALID_POLICY with paths', () => {
  fc.assert(
    fc.property(
      fc.anything({ withBigInt: true, withNullPrototype: true, withMap: true, withDate: true }),
      checked,
    ),
    { seed, numRuns: 2_000 },
  )
})

test('any damage to the default policy compiles or is refused as INVALID_POLICY with paths', () => {
  const damage = fc.oneof(
    fc.jsonValue({ maxDepth: 2 }),
    fc.constantFrom('', '0/day', 'unlimited', 'drop', 'digest:x', '22:00'),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(), damage), { minLength: 1, maxLength: 3 }), (places) => {
      const document = defaultDocument() as { [key: string]: JsonValue }
      for (const [place, value] of places) replaceNth(document, place, value as JsonValue)
      checked(document)
    }),
    { seed, numRuns: 1_000 },
  )
})

function checked(document: unknown): void {
  try {
    const policy = compilePolicy(document)
    policy.rulesFor(notification({ category: 'activity', actors: ['a', 'b'] }))
    assert.equal(compilePolicy(policy.document).version, policy.version)
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    assert.equal(error.code, 'INVALID_POLICY')
    assert.ok(error.errors!.length > 0)
    for (const { path, message } of error.errors!)
      assert.equal(typeof path === 'string' && message.length > 0, true)
  }
}

/** Replaces one of the values in a document, counted from the outside in. */
function replaceNth(document: { [key: string]: JsonValue }, place: number, value: JsonValue): void {
  const holders: [object, string][] = []
  const collect = (holder: object): void => {
    for (const [key, entry] of Object.entries(holder)) {
      holders.push([holder, key])
      if (typeof entry === 'object' && entry !== null) collect(entry)
    }
  }
  collect(document)
  const [holder, key] = holders[place % holders.length] ?? [document, 'limits']
  Object.assign(holder, { [key]: value })
}

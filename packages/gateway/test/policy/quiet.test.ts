import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Channel, Priority, Recipient } from '../../src/model.ts'
import { channels } from '../../src/model.ts'
import type { Policy } from '../../src/policy/policy.ts'
import { defaultPolicy, policyWith } from './policies.ts'

type Person = Pick<Recipient, 'timeZone' | 'quietHours' | 'phone'>

/** `reason from-to zone` of each rule. */
function quiet(
  policy: Policy,
  category: string,
  channel: Channel,
  recipient: Person = {},
  priority: Priority = 'normal',
): readonly string[] {
  return policy
    .quietFor({ channel, category, priority }, recipient)
    .map(({ reason, spec }) => `${reason} ${spec.from}-${spec.to} ${spec.timeZone}`)
}

const night = 'quiet_hours 22:00-08:00 UTC'
const law = 'legal_hours 21:00-08:00 UTC'

const table: readonly (readonly [category: string, channel: Channel, expected: readonly string[]])[] = [
  ['product', 'push', [night]],
  ['product', 'sms', [night]],
  ['product', 'email', []],
  ['activity', 'push', [night]],
  ['security', 'push', []],
  ['security', 'sms', []],
  ['marketing', 'sms', [night, law]],
  ['marketing', 'push', [night]],
  ['marketing', 'email', []],
]

for (const [category, channel, expected] of table) {
  test(`by default ${category} by ${channel} keeps ${expected.length === 0 ? 'no hours' : expected.join(' and ')}`, () => {
    assert.deepEqual(quiet(defaultPolicy, category, channel), expected)
  })
}

test('critical notifications have no quiet hours, not even legal ones', () => {
  for (const channel of channels)
    assert.deepEqual(quiet(defaultPolicy, 'marketing', channel, {}, 'critical'), [])
})

test("quiet hours are read in the recipient's time zone, and in the policy's where that is unknown", () => {
  const policy = policyWith([], {
    quietHours: { default: { from: '22:00', to: '08:00' }, unknownTimeZone: 'Asia/Tokyo' },
  })
  assert.deepEqual(quiet(policy, 'a', 'email', { timeZone: 'Europe/Rome' }), [
    'quiet_hours 22:00-08:00 Europe/Rome',
  ])
  assert.deepEqual(quiet(policy, 'a', 'email'), ['quiet_hours 22:00-08:00 Asia/Tokyo'])
  assert.deepEqual(quiet(policy, 'a', 'email', { timeZone: 'Europe/Atlantis' }), [
    'quiet_hours 22:00-08:00 Asia/Tokyo',
  ])
})

test("a recipient's hours for the channel come before their hours for all channels, and those before the policy's", () => {
  const quietHours = { push: { from: '20:00', to: '07:00' }, default: { from: '23:00', to: '06:00' } }
  assert.deepEqual(quiet(defaultPolicy, 'product', 'push', { quietHours }), ['quiet_hours 20:00-07:00 UTC'])
  assert.deepEqual(quiet(defaultPolicy, 'product', 'sms', { quietHours }), ['quiet_hours 23:00-06:00 UTC'])
  // also on a channel without hours of the policy
  assert.deepEqual(quiet(defaultPolicy, 'product', 'email', { quietHours }), ['quiet_hours 23:00-06:00 UTC'])
  const { push } = quietHours
  assert.deepEqual(quiet(defaultPolicy, 'product', 'sms', { quietHours: { push } }), [night])
})

test('equal from and to is never quiet, so a recipient may refuse the default', () => {
  const quietHours = { default: { from: '00:00', to: '00:00' } }
  assert.deepEqual(quiet(defaultPolicy, 'product', 'push', { quietHours }), [])
  assert.deepEqual(quiet(defaultPolicy, 'marketing', 'sms', { quietHours }), [law])
})

test("an excepted category passes the recipient's own hours too, and no legal ones", () => {
  const quietHours = { sms: { from: '20:00', to: '07:00' } }
  assert.deepEqual(quiet(defaultPolicy, 'security', 'sms', { quietHours }), [])
  const policy = policyWith([], {
    quietHours: {
      default: { from: '22:00', to: '08:00', except: 'security' },
      legal: [{ allowed: '09:00-17:00' }],
    },
  })
  assert.deepEqual(quiet(policy, 'security', 'sms', { quietHours }), ['legal_hours 17:00-09:00 UTC'])
})

test('every matching legal entry applies; a field that it does not name matches all', () => {
  const policy = policyWith([], {
    quietHours: {
      legal: [
        { allowed: '08:00-21:00' },
        { channel: 'sms', allowed: '09:00-20:00' },
        { category: ['marketing', 'survey'], allowed: '10:00-19:00' },
        { channel: 'sms', category: 'marketing', allowed: '22:00-02:00' },
      ],
    },
  })
  const hours = (category: string, channel: Channel) =>
    quiet(policy, category, channel).map((rule) => rule.split(' ')[1])
  assert.deepEqual(hours('product', 'email'), ['21:00-08:00'])
  assert.deepEqual(hours('product', 'sms'), ['21:00-08:00', '20:00-09:00'])
  assert.deepEqual(hours('survey', 'email'), ['21:00-08:00', '19:00-10:00'])
  assert.deepEqual(hours('marketing', 'sms'), ['21:00-08:00', '20:00-09:00', '19:00-10:00', '02:00-22:00'])
})

test('without a section the hours of a recipient still apply', () => {
  const policy = policyWith([])
  const quietHours = { default: { from: '22:00', to: '08:00' } }
  assert.deepEqual(quiet(policy, 'product', 'push'), [])
  assert.deepEqual(quiet(policy, 'product', 'push', { quietHours }), [night])
})

test('a phone number without a time zone keeps legal hours in every zone of its country code', () => {
  const hours = (channel: Channel, recipient: Person) => quiet(defaultPolicy, 'marketing', channel, recipient)
  assert.deepEqual(hours('sms', { phone: '+34911234567' }), [
    night,
    'legal_hours 21:00-08:00 Europe/Madrid',
    'legal_hours 21:00-08:00 Atlantic/Canary',
  ])
  const rome = 'Europe/Rome'
  assert.deepEqual(hours('sms', { phone: '+34911234567', timeZone: rome }), [
    `quiet_hours 22:00-08:00 ${rome}`,
    `legal_hours 21:00-08:00 ${rome}`,
  ])
  // A number of no country: as where nothing is known.
  assert.deepEqual(hours('sms', { phone: '+80012345678' }), [night, law])
  assert.deepEqual(hours('push', { phone: '+34911234567' }), [night])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultDocument, faultsOf } from './policies.ts'

const limit = { name: 'x', for: 'any', max: '1/day' }
const digest = { name: 'd', for: { template: 't' }, window: '1h', template: 't-digest' }
const quietDefault = { from: '22:00', to: '08:00' }

/** Invalid documents and their mistakes: each entry is the beginning of `path: message`. */
const table: readonly (readonly [document: unknown, ...told: readonly string[]])[] = [
  [null, ': expected an object'],
  [[], ': expected an object'],
  ['limits', ': expected an object'],
  [{ version: 2 }, 'version: expected 1'],
  [{ version: '1' }, 'version: expected 1'],
  [{ limit: [] }, 'limit: is not known here'],
  [JSON.parse('{"__proto__": {}}'), '__proto__: is not known here'],
  [{ complaints: [] }, 'complaints: expected an object'],
  [{ complaints: { warn: 1 } }, 'complaints.warn: is not known here'],
  [{ complaints: { warnAt: '5' } }, 'complaints.warnAt: expected a share such as 0.05%'],
  [
    { complaints: { warnAt: 0, pauseAt: '101%' } },
    'complaints.warnAt: expected',
    'complaints.pauseAt: expected',
  ],
  [{ complaints: { warnAt: '0.1%' } }, 'complaints.warnAt: has to be below pauseAt'],
  [{ complaints: { window: '32d' } }, 'complaints.window: "32d" is not within 1ms and 31d'],
  [{ complaints: { minimumDelivered: 0 } }, 'complaints.minimumDelivered: expected a whole number'],
  [
    { complaints: { categories: ['marketing', 'security'] } },
    'complaints.categories[1]: security is never slowed',
  ],
  [{ complaints: { categories: 'billing' } }, 'complaints.categories: billing is never slowed'],
  [{ limits: {} }, 'limits: expected a list'],
  [{ limits: [5] }, 'limits[0]: expected an object'],
  [
    { limits: [{}] },
    'limits[0].name: expected a text',
    'limits[0].for: expected any',
    'limits[0]: bounds nothing',
  ],
  [{ limits: [{ ...limit, name: '' }] }, 'limits[0].name: is empty'],
  [{ limits: [{ ...limit, name: 'a\u001fb' }] }, 'limits[0].name: holds a control character'],
  [
    { limits: [{ ...limit, name: '\ud800' }] },
    'limits[0].name: holds a control character or half of a character',
  ],
  [{ limits: [{ ...limit, name: 'x'.repeat(257) }] }, 'limits[0].name: is longer'],
  [{ limits: [limit, { ...limit, max: '2/day' }] }, 'limits[1].name: "x" is the name of limits[0] already'],
  [
    { limits: [{ ...limit, name: 'critical' }], critical: { max: '1/h' } },
    'limits[0].name: "critical" is the name of critical',
  ],
  [{ limits: [limit, { ...limit, name: 'y', Max: '1/day' }] }, 'limits[1].Max: is not known here'],
  [{ limits: [{ ...limit, for: 'some' }] }, 'limits[0].for: expected any, otherwise'],
  [{ limits: [{ ...limit, for: {} }] }, 'limits[0].for: names none of'],
  [{ limits: [{ ...limit, for: [] }] }, 'limits[0].for: expected an object'],
  [
    { limits: [{ ...limit, for: { recipient: 'ada' } }] },
    'limits[0].for.recipient: is not known',
    'limits[0].for: names none',
  ],
  [{ limits: [{ ...limit, for: { channel: 'fax' } }] }, 'limits[0].for.channel: "fax" is none of email'],
  [
    { limits: [{ ...limit, for: { channel: ['sms', 'fax'] } }] },
    'limits[0].for.channel[1]: "fax" is none of',
  ],
  [
    { limits: [{ ...limit, for: { priority: 'urgent' } }] },
    'limits[0].for.priority: "urgent" is none of critical',
  ],
  [{ limits: [{ ...limit, for: { category: [] } }] }, 'limits[0].for.category: is an empty list'],
  [{ limits: [{ ...limit, for: { category: 5 } }] }, 'limits[0].for.category: expected a text; this is 5'],
  [
    { limits: [{ ...limit, max: ['2/day', '3/24h'] }] },
    "limits[0].max: '2/day' and '3/24h' are equally long",
  ],
  [{ limits: [{ ...limit, per: 'author' }] }, 'limits[0].per: "author" is none of actor, address'],
  [{ limits: [{ ...limit, per: ['recipient', 'priority'] }] }, 'limits[0].per[1]: "priority" is none of'],
  [{ limits: [{ ...limit, per: [] }] }, 'limits[0].per: is an empty list'],
  [{ limits: [{ ...limit, max: '2 a day' }] }, "limits[0].max: '2 a day' is not a window"],
  [
    { limits: [{ ...limit, max: ['2/day', '3/fortnight'] }] },
    "limits[0].max[1]: '3/fortnight' is not a window",
  ],
  [{ limits: [{ ...limit, max: '5/32d' }] }, "limits[0].max: '5/32d' lasts"],
  [{ limits: [{ ...limit, minGap: '1 second' }] }, "limits[0].minGap: '1 second' is not a duration"],
  [{ limits: [{ ...limit, minGap: '0s' }] }, 'limits[0].minGap: "0s" is not within'],
  [{ limits: [{ ...limit, minGap: 300 }] }, 'limits[0].minGap: expected a duration'],
  [{ limits: [{ ...limit, over: 'wait' }] }, 'limits[0].over: expected delay, drop'],
  [{ limits: [{ ...limit, over: 'digest:' }] }, 'limits[0].over: expected delay, drop'],
  [
    { limits: [{ ...limit, over: 'digest:daily' }], digests: [digest] },
    'limits[0].over: "daily" is no digest of this policy; there are d',
  ],
  [{ limits: [{ ...limit, over: 'fallback:fax' }] }, 'limits[0].over: "fax" is no channel'],
  [{ limits: [{ ...limit, over: 'fallback:email' }] }, 'limits[0].over: a fallback needs the channels'],
  [
    { limits: [{ ...limit, for: 'otherwise', over: 'fallback:email' }] },
    'limits[0].over: a fallback needs the channels',
  ],
  [
    { limits: [{ ...limit, for: { channel: ['sms', 'email'] }, over: 'fallback:email' }] },
    'limits[0].over: falls back to email',
  ],
  [{ digests: [digest, digest] }, 'digests[1].name: "d" is the name of digests[0]'],
  [{ digests: [{ ...digest, minItems: 5, maxItems: 4 }] }, 'digests[0].minItems: 5 is more than maxItems, 4'],
  [{ digests: [{ ...digest, maxItems: 1 }] }, 'digests[0].minItems: 2 is more than maxItems, 1'],
  [{ digests: [{ ...digest, minItems: 0 }] }, 'digests[0].minItems: expected a whole number from 1'],
  [{ digests: [{ ...digest, maxItems: 1.5 }] }, 'digests[0].maxItems: expected a whole number'],
  [{ digests: [{ ...digest, window: '60' }] }, "digests[0].window: '60' is not a duration"],
  [{ digests: [{ ...digest, window: '32d' }] }, 'digests[0].window: "32d" is not within 1ms and 31d'],
  [{ digests: [{ ...digest, for: 'otherwise' }] }, 'digests[0].for: otherwise is for limits only'],
  [
    { digests: [{ name: 'd', for: 'any' }] },
    'digests[0].window: expected a duration',
    'digests[0].template: expected a text',
  ],
  // the digest's own mistake is reported, not that the limit does not find it
  [
    { limits: [{ ...limit, over: 'digest:d' }], digests: [{ ...digest, window: 1 }] },
    'digests[0].window: expected a duration',
  ],
  [{ deduplication: {} }, 'deduplication.window: expected a duration'],
  [{ deduplication: '1h' }, 'deduplication: expected an object'],
  [{ deduplication: { window: '99d' } }, 'deduplication.window: "99d" is not within'],
  [{ critical: {} }, 'critical: bounds nothing'],
  [
    { critical: { max: '30/h', over: 'digest:d' }, digests: [digest] },
    'critical.over: expected delay or drop',
  ],
  [{ critical: { max: '30/h', per: 'tenant' } }, 'critical.per: is not known here'],
  [{ maxDelay: 'forever' }, "maxDelay: 'forever' is not a duration"],
  [{ maxDelay: '367d' }, 'maxDelay: "367d" is not within 1ms and 366d'],
  [{ quietHours: [] }, 'quietHours: expected an object'],
  [{ quietHours: { default: { from: '22:00' } } }, 'quietHours.default.to: expected a text; this is missing'],
  [
    { quietHours: { default: { ...quietDefault, from: '24:00' } } },
    'quietHours.default.from: "24:00" is not a wall time',
  ],
  [
    { quietHours: { default: { ...quietDefault, from: 1320 } } },
    'quietHours.default.from: expected a text; this is 1320',
  ],
  [
    { quietHours: { default: { ...quietDefault, channels: ['fax'] } } },
    'quietHours.default.channels[0]: "fax" is none of',
  ],
  [{ quietHours: { legal: [{ channel: 'sms' }] } }, 'quietHours.legal[0].allowed: expected a text'],
  [{ quietHours: { legal: [{ allowed: '8-21' }] } }, 'quietHours.legal[0].allowed: "8-21" is not a range'],
  [
    { quietHours: { unknownTimeZone: 'Mars/Olympus' } },
    'quietHours.unknownTimeZone: "Mars/Olympus" is no IANA time zone',
  ],
  [{ quietHours: { spread: '2d' } }, 'quietHours.spread: "2d" is not within 0ms and 1d'],
]

for (const [document, ...told] of table) {
  test(`${JSON.stringify(document).slice(0, 100)} is refused`, () => {
    const faults = faultsOf(document)
    assert.equal(faults.length, told.length, faults.join('\n'))
    for (const [index, beginning] of told.entries()) {
      assert.ok(faults[index]!.startsWith(beginning), `${faults[index]}\nshould begin with\n${beginning}`)
    }
  })
}

test('all mistakes are reported at once', () => {
  const document = defaultDocument() as { limits: { over: string }[]; maxDelay: string }
  document.limits[3]!.over = 'digest:nothing'
  document.limits[5]!.over = 'fallback:email'
  document.maxDelay = '7 days'
  const paths = faultsOf(document).map((fault) => fault.split(':')[0])
  assert.deepEqual(paths, ['maxDelay', 'limits[3].over', 'limits[5].over'])
})

test('the list of mistakes is bounded', () => {
  assert.equal(faultsOf({ limits: new Array(1_000).fill(5) }).length, 100)
  assert.deepEqual(faultsOf({ limits: new Array(1_001).fill(limit) }), [
    'limits: has 1001 entries, at most 1000 are carried',
  ])
})

test('an empty key counts as missing', () => {
  const document = {
    version: null,
    limits: null,
    digests: null,
    quietHours: null,
    deduplication: null,
    critical: null,
    complaints: null,
  }
  assert.deepEqual(faultsOf(document), [])
  assert.deepEqual(faultsOf({ limits: [{ ...limit, per: null, over: null, minGap: null }] }), [])
})

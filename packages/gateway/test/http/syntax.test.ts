/** The formats of addresses, numbers, URLs and instants. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  isEmail,
  isLocale,
  isOneLine,
  isPhone,
  isPrintable,
  isWebUrl,
  parseInstant,
} from '../../src/http/syntax.ts'

const seed = Number(process.env.SLUICE_SEED ?? 1)
console.log(`SLUICE_SEED=${seed}`)

interface Table {
  readonly is: (text: string) => boolean
  readonly good: readonly string[]
  readonly bad: readonly string[]
}

const long = (count: number) => 'x'.repeat(count)
const tables: Readonly<Record<string, Table>> = {
  'an email address': {
    is: isEmail,
    good: [
      'ada@example.com',
      "o'hara+tag_1.x@sub.example.co",
      `${long(64)}@example.com`,
      'ada@xn--bcher-kva.example',
      'gödel@bücher.example',
      '用户@例子.广告',
    ],
    bad: [
      '',
      'ada',
      'ada@',
      '@example.com',
      'ada@example',
      'ada@example.com ',
      ' ada@example.com',
      'ada@example.com\n',
      'ada@example.com\r\nBcc: eve@example.com',
      'ada@exa\0mple.com',
      'ada@example.com,eve@example.com',
      'ada@example.com;eve@example.com',
      'Ada <ada@example.com>',
      '<ada@example.com>',
      '"ada"@example.com',
      'ada(comment)@example.com',
      'ada..l@example.com',
      '.ada@example.com',
      'ada.@example.com',
      'ada@@example.com',
      'ada@eve@example.com',
      'ada@-example.com',
      'ada@example-.com',
      'ada@example..com',
      'ada@.example.com',
      'ada@[127.0.0.1]',
      `${long(65)}@example.com`,
      `a@${`${long(60)}.`.repeat(5)}com`,
      `ü@${'ü'.repeat(62)}.${'ü'.repeat(62)}.com`,
      'ada\u2028@example.com',
    ],
  },
  'a phone number': {
    is: isPhone,
    good: ['+393331234567', '+12', '+123456789012345'],
    bad: [
      '',
      '393331234567',
      '+0123456',
      '+1234567890123456',
      '+39 333 1234567',
      '+39333-1',
      '+393331234567\n',
      '+',
    ],
  },
  'a web URL': {
    is: isWebUrl,
    good: [
      'https://example.com',
      'http://example.com:8080/a?b=c#d',
      'HTTPS://EXAMPLE.COM/',
      'http://[::1]/x',
      'http://127.0.0.1/',
    ],
    bad: [
      '',
      'example.com',
      'ftp://example.com',
      'file:///etc/passwd',
      'javascript:alert(1)',
      'https://',
      'https:example.com',
      'https:/example.com',
      'https://user:pass@example.com',
      'https://user@example.com',
      'https://exam ple.com',
      'https://example.com/\r\nX: y',
      'http:\\\\example.com',
    ],
  },
  'a locale': {
    is: isLocale,
    good: ['it', 'it-IT', 'zh-Hant-TW', 'de-CH-1996'],
    bad: ['', 'x', 'it_IT', 'not a locale', 'it-'],
  },
  'printable text': {
    is: isPrintable,
    good: ['user-42', 'a b', 'Zoë', '用户', '💩'],
    bad: ['', ' a', 'a ', 'a\nb', 'a\0', '\u007f', 'a\u0085b', 'a\u2028b', '\ufeffa', '\ud800'],
  },
  'one line': {
    is: isOneLine,
    good: ['', 'Hello – world 💩'],
    bad: ['a\r', 'a\nb', 'a\0b', 'a\u2029b', '\u001b[31m'],
  },
  'an instant': {
    is: (text) => !Number.isNaN(parseInstant(text)),
    good: [
      '2026-11-22T09:00:00Z',
      '2026-11-22T09:00:00.123456789+05:30',
      '2026-11-22t09:00:00z',
      '2028-02-29T00:00:00Z',
      '2026-12-31T23:59:59-23:59',
    ],
    bad: [
      '',
      '2026-11-22',
      '2026-11-22T09:00:00',
      '2026-11-22 09:00:00Z',
      '2026-11-22T9:00:00Z',
      '2026-11-22T24:00:00Z',
      '2026-11-22T09:60:00Z',
      '2026-11-22T09:00:60Z',
      '2026-13-01T00:00:00Z',
      '2026-00-01T00:00:00Z',
      '2026-02-29T00:00:00Z',
      '2026-04-31T00:00:00Z',
      '2026-11-00T00:00:00Z',
      '2026-11-22T09:00:00+24:00',
      '2026-11-22T09:00:00+05:60',
      '2026-11-22T09:00:00.Z',
      '+002026-11-22T09:00:00Z',
      '1763802000000',
    ],
  },
}

for (const [what, { is, good, bad }] of Object.entries(tables)) {
  for (const text of good)
    test(`${JSON.stringify(text).slice(0, 60)} is ${what}`, () => assert.equal(is(text), true))
  for (const text of bad)
    test(`${JSON.stringify(text).slice(0, 60)} is not ${what}`, () => assert.equal(is(text), false))
}

test('an instant is parsed to its epoch milliseconds', () => {
  assert.equal(parseInstant('2026-11-22T09:00:00.5+01:00'), Date.UTC(2026, 10, 22, 8, 0, 0, 500))
  fc.assert(
    fc.property(
      fc.date({ min: new Date(0), max: new Date('9999-12-31T23:59:59Z'), noInvalidDate: true }),
      (date) => {
        assert.equal(parseInstant(date.toISOString()), date.getTime())
      },
    ),
    { seed },
  )
})

test('no accepted address can inject a mail header', () => {
  const piece = fc.constantFrom(
    'a',
    'b.c',
    '@',
    '.',
    '@x.example',
    ' ',
    '\r\n',
    ',',
    ';',
    '<',
    '>',
    '"',
    '\\',
    '(',
    ':',
    'ü',
    '\u2028',
    '\0',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
      const text = pieces.join('')
      if (isEmail(text)) assert.match(text, /^[^\s@,;:<>()"\\\p{Cc}]+@[^\s@,;:<>()"\\\p{Cc}]+$/u)
    }),
    { seed, numRuns: 20_000 },
  )
})

test('no text makes a check slow', () => {
  const hostile = [
    `${'a.'.repeat(50_000)}@`,
    `${'a-'.repeat(50_000)}`,
    `a@${'a-'.repeat(50_000)}`,
    `a@${'é.'.repeat(50_000)}`,
    `http://${'a'.repeat(100_000)} `,
    ' '.repeat(100_000),
  ]
  const startedAt = performance.now()
  for (const text of hostile) for (const { is } of Object.values(tables)) is(text)
  // Far above the time it takes (a few ms), far below that of backtracking.
  assert.ok(performance.now() - startedAt < 2_000)
})

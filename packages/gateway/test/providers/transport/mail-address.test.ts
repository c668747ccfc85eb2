import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isHeaderSafe, parseMailbox } from '../../../src/providers/transport/mail-address.ts'

const seed = Number(process.env.SLUICE_SEED ?? 20_261_121)

for (const [text, address, international] of [
  ['ada@example.com', 'ada@example.com', false],
  ['Ada.Lovelace+news@Example.COM', 'Ada.Lovelace+news@example.com', false],
  ["o'neil!#$%&*/=?^_`{|}~-@x.example", "o'neil!#$%&*/=?^_`{|}~-@x.example", false],
  ['ada@bücher.example', 'ada@xn--bcher-kva.example', false],
  ['jürgen@example.com', 'jürgen@example.com', true],
  ['root@localhost', 'root@localhost', false],
] as const) {
  test(`${text} is one mailbox`, () => {
    const mailbox = parseMailbox(text)
    assert.ok(!('fault' in mailbox), JSON.stringify(mailbox))
    assert.deepEqual([mailbox.address, mailbox.international], [address, international])
  })
}

for (const text of [
  '',
  '@',
  'ada',
  'ada@',
  '@example.com',
  'a b@example.com',
  ' ada@example.com',
  'ada@example.com ',
  'ada@example.com,bob@example.com',
  'ada@example.com;bob@example.com',
  'a@b@example.com',
  '<ada@example.com>',
  'Ada <ada@example.com>',
  '"a b"@example.com',
  '.ada@example.com',
  'ada.@example.com',
  'a..b@example.com',
  'ada@exa mple.com',
  'ada@-example.com',
  'ada@example..com',
  'ada@[127.0.0.1]',
  'ada@exam_ple.com',
  'ada@example.com\r\nRCPT TO:<x@y.example>',
  'ada@example.com\n',
  '\rada@example.com',
  'ada\0@example.com',
  'ada\u2028@example.com',
  `${'a'.repeat(65)}@example.com`,
  `a@${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(63)}.${'e'.repeat(63)}`,
]) {
  test(`${JSON.stringify(text).slice(0, 60)} is no mailbox`, () => assert.ok('fault' in parseMailbox(text)))
}

test(`no text becomes an address that could end a command or name two (SLUICE_SEED=${seed})`, () => {
  const pieces = fc.constantFrom(
    'ada',
    '@',
    'x.example',
    '\r',
    '\n',
    '\0',
    '<',
    '>',
    ',',
    ';',
    ' ',
    '"',
    ':',
    'ü',
    '。',
    '\u2028',
    '＠',
    '\\',
  )
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 12 }), (parts) => {
      const mailbox = parseMailbox(parts.join(''))
      if ('fault' in mailbox) return
      assert.match(mailbox.address, /^[^\p{Cc}\p{Z}<>,;:"\\@]+@[a-z0-9.-]+$/u)
    }),
    { seed, numRuns: 20_000 },
  )
})

test('a header takes no control character, and nothing that any reader takes for a line end', () => {
  for (const end of ['\r', '\n', '\0', '\u0085', '\u2028', '\u2029', '\u000b'])
    assert.equal(isHeaderSafe(`a${end}b`), false)
  assert.equal(isHeaderSafe('Grüße “Ada” 👋'), true)
})

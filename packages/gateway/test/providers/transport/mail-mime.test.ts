import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Content } from '../../../src/model.ts'
import { composeMail } from '../../../src/providers/transport/mail-mime.ts'

const seed = Number(process.env.SLUICE_SEED ?? 20_261_121)

function compose(content: Content, name = 'Sluice'): string {
  const from = { name, address: 'a@shop.example', domain: 'shop.example' }
  return composeMail({ id: '01ABC', from, to: 'ada@example.com', content, date: Date.UTC(2026, 10, 21, 12) })
}

/** A reader of its own: RFC 2047, RFC 2045 and RFC 2046, as far as a mail of ours needs them. */
interface Read {
  readonly headers: Readonly<Record<string, string>>
  readonly parts: Readonly<Record<string, string>>
}

function read(mail: string): Read {
  const [headers, body] = split(mail)
  const boundary = /boundary="(.*?)"/.exec(headers['content-type'] ?? '')?.[1]
  const parts: Record<string, string> = {}
  const pieces =
    boundary === undefined
      ? [mail]
      : `\r\n${body}`
          .split(`\r\n--${boundary}`)
          .slice(1, -1)
          .map((piece) => piece.slice(2))
  for (const piece of pieces) {
    const [own, text] = split(piece)
    parts[own['content-type']!.split(';')[0]!] = decodeBody(own['content-transfer-encoding']!, text)
  }
  return { headers, parts }
}

function split(entity: string): [Record<string, string>, string] {
  const end = entity.indexOf('\r\n\r\n')
  const lines = entity
    .slice(0, end)
    .replace(/\r\n(?=[ \t])/g, '')
    .split('\r\n')
  const headers = Object.fromEntries(
    lines.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      decodeWords(line.slice(line.indexOf(':') + 2)),
    ]),
  )
  return [headers, entity.slice(end + 4)]
}

function decodeWords(value: string): string {
  const joined = value.replace(/(=\?UTF-8\?Q\?[^?]*\?=)[ \t]+(?==\?UTF-8\?Q\?)/gi, '$1')
  // Words are joined as bytes only inside one word: a letter split between two would be lost, as RFC 2047 forbids it.
  return joined.replace(/=\?UTF-8\?Q\?([^?]*)\?=/gi, (_, text: string) =>
    decodeQuoted(text.replace(/_/g, ' ')),
  )
}

function decodeQuoted(text: string): string {
  const bytes = text
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(bytes, 'latin1'))
}

function decodeBody(encoding: string, text: string): string {
  if (encoding === 'base64') return Buffer.from(text, 'base64').toString('utf8')
  return encoding === 'quoted-printable' ? decodeQuoted(text) : text
}

const lines = (text: string): string => text.replace(/\r\n?/g, '\n').replace(/\n+$/, '')

test('a short English mail stays readable as it is', () => {
  const mail = compose({ subject: 'Hello', text: 'Hi Ada,\nbye' })
  assert.ok(mail.includes('\r\nSubject: Hello\r\n'))
  assert.ok(mail.includes('\r\nDate: Sat, 21 Nov 2026 12:00:00 +0000\r\n'))
  assert.ok(
    mail.endsWith(
      'Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\nHi Ada,\r\nbye',
    ),
  )
})

test('text and HTML are alternatives, the plain one first', () => {
  const mail = compose({ subject: 's', text: 't', html: '<p>h</p>' })
  assert.ok(mail.indexOf('text/plain') < mail.indexOf('text/html'))
  assert.match(mail, /Content-Type: multipart\/alternative; boundary="=_01ABC"/)
})

test('a text that contains the boundary does not end its part', () => {
  const text = 'one\n--=_01ABC\n--=_01ABC--\ntwo'
  assert.equal(lines(read(compose({ text, html: '<p>--=_01ABC_</p>' })).parts['text/plain']!), text)
})

test('a push title stands in for a missing subject', () => {
  assert.equal(read(compose({ title: 'Titel', text: 't' })).headers.subject, 'Titel')
})

test(`any content can be read back, in lines that every server takes (SLUICE_SEED=${seed})`, () => {
  const text = fc
    .oneof(
      fc.string({ unit: 'grapheme', maxLength: 300 }),
      fc.string({ unit: 'binary', maxLength: 300 }),
      fc
        .array(
          fc.constantFrom(
            '.',
            '..',
            '=',
            '\t',
            ' ',
            'ü',
            '你',
            '\n',
            '\r\n',
            '\r',
            'From ',
            '--=_01ABC',
            'x'.repeat(90),
            ' '.repeat(80),
          ),
          { maxLength: 40 },
        )
        .map((parts) => parts.join('')),
    )
    .map((value) => value.toWellFormed())
  const name = fc
    .string({ unit: 'grapheme', maxLength: 120 })
    .map((value) => value.replace(/[\p{Cc}\u2028\u2029]/gu, '').toWellFormed())
  fc.assert(
    fc.property(name, text, fc.option(text, { nil: undefined }), (subject, plain, html) => {
      const mail = compose({ subject, text: plain, ...(html === undefined ? {} : { html }) })
      assert.match(mail, /^\p{ASCII}*$/u)
      assert.doesNotMatch(mail, /(?<!\r)\n/)
      for (const line of mail.split('\r\n')) assert.ok(line.length <= 998, `${line.length} columns`)
      const { headers, parts } = read(mail)
      assert.equal(headers.subject!.trim(), subject.trim())
      assert.equal(lines(parts['text/plain']!), lines(plain))
      if (html !== undefined) assert.equal(lines(parts['text/html']!), lines(html))
    }),
    { seed, numRuns: 1_000 },
  )
})

test('no line of a mail is longer than a server must take, whatever is in its headers', () => {
  const urlOf = (octets: number) => `https://notify.example/u/${'a'.repeat(octets - 25)}`
  for (const octets of [30, 60, 78, 300, 995, 996, 997, 1_238, 5_000]) {
    const mail = composeMail({
      id: '01ABC',
      from: { name: 'n'.repeat(1_200), address: 'a@shop.example', domain: 'shop.example' },
      to: 'ada@example.com',
      content: { subject: `${'s'.repeat(998)} and more`, text: 't' },
      date: 0,
      unsubscribeUrl: urlOf(octets),
    })
    const lines = mail.split('\r\n')
    const longest = Math.max(...lines.map((line) => Buffer.byteLength(line)))
    assert.ok(longest <= 998, `${longest} octets`)
    assert.ok(
      lines.every((line) => line.length <= 78 || line === ` <${urlOf(octets)}>`),
      `${octets}: ${mail}`,
    )
    const { headers } = read(mail)
    assert.equal(headers['list-unsubscribe']!.replace(/\s/g, ''), `<${urlOf(octets)}>`)
    assert.equal(headers.subject, `${'s'.repeat(998)} and more`)
    assert.equal(headers.from, `${'n'.repeat(1_200)} <a@shop.example>`)
  }
})

test('a mail names its notification in another header where a service returns that one', () => {
  const from = { name: '', address: 'a@shop.example', domain: 'shop.example' }
  const mail = { id: '01ABC', from, to: 'ada@example.com', content: { text: 'Hello' }, date: 0 }
  const idHeader = 'X-PM-Metadata-notification_id'
  assert.equal(read(composeMail({ ...mail, idHeader })).headers[idHeader.toLowerCase()], '01ABC')
  assert.equal(read(composeMail(mail)).headers[idHeader.toLowerCase()], undefined)
})

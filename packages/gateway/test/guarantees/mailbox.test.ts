/**
 * From a request to a file in a mailbox, through a real mail server: what a recipient's mail program will read, byte by
 * byte, and the one click that ends it.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { readMaildir } from '../../../../scripts/services/postfix.ts'
import { createSite, type Site } from '../child.ts'

const publicUrl = 'https://notify.example.test'
const subject =
  'Grüße aus Zürich 🎉 — ein Betreff, der lang genug ist, um gefaltet zu werden, und noch etwas länger'
const text = 'Liebe Ada,\n.ein Punkt am Anfang\nüñïçødé und 日本語 🚀\n'

/** The one mail that carries the id, when it has been delivered. */
async function mailOf(id: string): Promise<string> {
  for (let tries = 0; tries < 1_200; tries += 1) {
    const mails = readMaildir(process.env.SLUICE_TEST_MAILDIR!).filter(({ raw }) =>
      raw.includes(`X-Notification-Id: ${id}`),
    )
    assert.ok(mails.length <= 1, 'the mail is in the mailbox once')
    if (mails[0] !== undefined) return mails[0].raw.replaceAll('\r\n', '\n')
    await sleep(50)
  }
  throw new Error(`no mail for ${id} within a minute`)
}

/** The unfolded value of a header (RFC 5322, 2.2.3). */
function header(mail: string, name: string): string | undefined {
  const head = mail.slice(0, mail.indexOf('\n\n')).replaceAll(/\n(?=[ \t])/g, '')
  return new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]
}

/** Encoded words read by a decoder of this test's own (RFC 2047). */
function decodeWords(value: string): string {
  return value
    .replaceAll(/\?=\s+=\?/g, '?==?')
    .replaceAll(/((?:=\?utf-8\?[bq]\?[^?]*\?=)+)/gi, (words) =>
      Buffer.concat(
        [...words.matchAll(/=\?utf-8\?([bq])\?([^?]*)\?=/gi)].map(([, form, coded]) =>
          form!.toLowerCase() === 'b' ? Buffer.from(coded!, 'base64') : unquote(coded!.replaceAll('_', ' ')),
        ),
      ).toString('utf8'),
    )
}

function unquote(coded: string): Buffer {
  const plain = coded
    .replaceAll(/=\n/g, '')
    .replaceAll(/=([0-9A-F]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(plain, 'latin1')
}

/** The text of a mail with one part. */
function bodyOf(mail: string): string {
  const coded = mail.slice(mail.indexOf('\n\n') + 2)
  switch (header(mail, 'Content-Transfer-Encoding')) {
    case 'quoted-printable':
      return unquote(coded).toString('utf8').replaceAll('\r\n', '\n')
    case 'base64':
      return Buffer.from(coded, 'base64').toString('utf8').replaceAll('\r\n', '\n')
    default:
      return coded
  }
}

async function post(
  site: Site,
  more: object,
): Promise<{ notificationId: string; status: string; reason?: string }> {
  const body = {
    recipient: { id: 'ada', email: 'ada@example.test' },
    channel: 'email',
    category: 'marketing',
    ...more,
  }
  const answer = await site.call('POST', '/api/v1/notifications', body)
  assert.equal(answer.status, 202, answer.text)
  const { notificationId, status, decision } = answer.json<{
    notificationId: string
    status: string
    decision: { reason?: string }
  }>()
  return { notificationId, status, ...(decision.reason === undefined ? {} : { reason: decision.reason }) }
}

test(
  'a mail arrives in the mailbox intact, and its unsubscribe link stops further mails',
  needs('postfix'),
  async (t) => {
    const account = {
      id: 'main',
      url: process.env.SLUICE_TEST_SMTP!,
      from: 'Büro Sluice <news@example.test>',
    }
    const site = await createSite(t, {
      policy: { version: 1, limits: [] },
      config: { http: { publicUrl }, pools: { email: { provider: 'smtp', accounts: [account] } } },
    })
    await site.start()

    const { notificationId } = await post(site, { content: { subject, text } })
    const mail = await mailOf(notificationId)
    for (const line of mail.slice(0, mail.indexOf('\n\n')).split('\n'))
      assert.match(line, /^[\x20-\x7e\t]{0,998}$/, 'headers are ASCII')
    assert.equal(decodeWords(header(mail, 'From')!), 'Büro Sluice <news@example.test>')
    assert.equal(header(mail, 'To'), 'ada@example.test')
    assert.equal(decodeWords(header(mail, 'Subject')!), subject)
    const sentAt = Date.parse(header(mail, 'Date')!)
    assert.ok(Math.abs(Date.now() - sentAt) < 60_000, `Date: ${header(mail, 'Date')}`)
    assert.match(header(mail, 'Date')!, /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} \+0000$/)
    assert.equal(header(mail, 'Message-ID'), `<${notificationId}@example.test>`)
    assert.equal(header(mail, 'MIME-Version'), '1.0')
    assert.equal(header(mail, 'Content-Type'), 'text/plain; charset=utf-8')
    assert.equal(bodyOf(mail).trimEnd(), text.trimEnd())
    assert.equal(header(mail, 'List-Unsubscribe-Post'), 'List-Unsubscribe=One-Click')
    const link = /^<(https:\/\/notify\.example\.test\/u\/[\w.-]+)>$/.exec(
      header(mail, 'List-Unsubscribe')!,
    )?.[1]
    assert.ok(link !== undefined, header(mail, 'List-Unsubscribe'))

    const both = await post(site, { content: { subject: 'both', text, html: '<p>Grüße 🎉</p>' } })
    const parts = await mailOf(both.notificationId)
    const boundary = /^multipart\/alternative; boundary="(.+)"$/.exec(header(parts, 'Content-Type')!)![1]!
    const bodies = parts
      .slice(parts.indexOf('\n\n'))
      .split(`--${boundary}`)
      .slice(1, -1)
      .map((part) => part.replace(/^\n/, ''))
    assert.deepEqual(
      bodies.map((part) => header(part, 'Content-Type')),
      ['text/plain; charset=utf-8', 'text/html; charset=utf-8'],
    )
    assert.deepEqual(
      bodies.map((part) => bodyOf(part).trimEnd()),
      [text.trimEnd(), '<p>Grüße 🎉</p>'],
    )

    // A mail program posts to the link and nothing else; a scanner that only looks changes nothing.
    const path = link.slice(publicUrl.length)
    assert.equal((await site.call('GET', path)).status, 200)
    const still = await post(site, { content: { subject: 'still', text: 'still' } })
    await mailOf(still.notificationId)
    const click = await site.call('POST', path, undefined, {
      'content-type': 'application/x-www-form-urlencoded',
    })
    assert.equal(click.status, 200, click.text)
    const after = await post(site, { content: { subject: 'after', text: 'after' } })
    assert.deepEqual([after.status, after.reason], ['suppressed', 'opted_out'])
    const other = await post(site, { category: 'billing', content: { subject: 'other', text: 'other' } })
    await mailOf(other.notificationId)
    t.diagnostic(`${readMaildir(process.env.SLUICE_TEST_MAILDIR!).length} mails in the mailbox`)
  },
)

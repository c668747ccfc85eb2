/**
 * A notification as a mail (RFC 5322, MIME). The mail depends on the message alone, so a repetition is the same mail
 * with the same Message-ID. Written here and not by nodemailer's composer, which takes 110 µs and several turns of
 * the event loop for 10 µs of text; its encoders of words and quoted-printable are used. Pure.
 */
import { encodeWord, encodeWords, foldLines } from 'nodemailer/lib/mime-funcs'
import { encode as encodeQuoted, wrap } from 'nodemailer/lib/qp'
import type { Content } from '../../model.ts'

export interface Mail {
  readonly id: string
  /** Display name and address of the sender. */
  readonly from: { readonly name: string; readonly address: string; readonly domain: string }
  readonly to: string
  readonly content: Content
  /** Date of the mail, epoch ms. */
  readonly date: number
  readonly unsubscribeUrl?: string
  /** Name of another header that holds the id, for a service that returns it with what it reports. */
  readonly idHeader?: string | undefined
}

/** Columns of a header line (RFC 5322, 2.1.1) and of an encoded body. */
const lineMax = 76
/** Letters of an encoded word's text: with its frame it stays below the 75 of RFC 2047. */
const wordMax = 52

/** Most octets of any line. */
const octetsMax = 998
/** Length from which a word has no place beside a header's name. */
const unfoldable = /\S{60}/

/** Composes the whole mail with CRLF line ends, dots not yet doubled. No value may hold a control character. */
export function composeMail(mail: Mail): string {
  const { from, content } = mail
  const lines = [
    header('From', from.name === '' ? from.address : `${displayName(from.name)} <${from.address}>`),
    header('To', mail.to),
    header('Subject', unstructured(content.subject ?? content.title ?? '')),
    `Date: ${new Date(mail.date).toUTCString().replace('GMT', '+0000')}`,
    `Message-ID: <${mail.id}@${from.domain}>`,
    `X-Notification-Id: ${mail.id}`,
    // Prevents out-of-office answers (RFC 3834).
    'Auto-Submitted: auto-generated',
  ]
  if (mail.idHeader !== undefined) lines.push(`${mail.idHeader}: ${mail.id}`)
  if (mail.unsubscribeUrl !== undefined) {
    lines.push(
      header('List-Unsubscribe', bracketed(mail.unsubscribeUrl)),
      'List-Unsubscribe-Post: List-Unsubscribe=One-Click',
    )
  }
  lines.push('MIME-Version: 1.0')
  return `${lines.join('\r\n')}\r\n${body(mail.id, content)}`
}

function body(id: string, { text, html }: Content): string {
  if (html === undefined) return part('plain', text ?? '')
  if (text === undefined) return part('html', html)
  const boundary = boundaryFor(id, text, html)
  return [
    `Content-Type: multipart/alternative; boundary="${boundary}"\r\n`,
    `--${boundary}`,
    `${part('plain', text)}\r\n--${boundary}`,
    `${part('html', html)}\r\n--${boundary}--\r\n`,
  ].join('\r\n')
}

function boundaryFor(id: string, text: string, html: string): string {
  let boundary = `=_${id}`
  while (text.includes(boundary) || html.includes(boundary)) boundary += '_'
  return boundary
}

function part(kind: 'plain' | 'html', text: string): string {
  const normal = text.replace(/\r\n?|\n/g, '\r\n')
  const { encoding, encoded } = encodeBody(normal)
  return `Content-Type: text/${kind}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${encoded}`
}

/** Encodes a text: unchanged where every server accepts it, else the shorter one of quoted-printable and base64. */
function encodeBody(text: string): { encoding: string; encoded: string } {
  if (/^[\t\r\n\x20-\x7e]*$/.test(text) && !/[^\r\n]{77}/.test(text))
    return { encoding: '7bit', encoded: text }
  const bytes = Buffer.from(text, 'utf8')
  let plain = 0
  for (const byte of bytes) if (byte < 0x80) plain += 1
  // A byte that is not ASCII takes three letters quoted; any byte takes four thirds in base64.
  if ((bytes.length - plain) * 3 + plain > (bytes.length * 4) / 3) {
    return { encoding: 'base64', encoded: bytes.toString('base64').replace(/.{76}(?=.)/g, '$&\r\n') }
  }
  return { encoding: 'quoted-printable', encoded: wrap(encodeQuoted(bytes), lineMax) }
}

function header(name: string, value: string): string {
  return foldLines(`${name}: ${value}`, lineMax)
}

/** Encodes words of text. A word too long to be folded at spaces is encoded, so that it can be folded. */
function unstructured(text: string): string {
  return unfoldable.test(text) ? encodeWord(text, 'Q', wordMax) : encodeWords(text, 'Q', wordMax, true)
}

/**
 * Writes an address in brackets, whole on a line up to 998 octets (RFC 5322, 2.1.1). A longer one is folded: readers
 * ignore white space within the brackets (RFC 2369, 2).
 */
function bracketed(url: string): string {
  const whole = `<${url}>`
  return whole.length < octetsMax ? whole : whole.replace(/.{70}(?=.)/g, '$& ')
}

function displayName(name: string): string {
  if (unfoldable.test(name)) return encodeWord(name, 'Q', wordMax)
  if (/^[A-Za-z0-9 ]*$/.test(name)) return name
  if (/^[\x20-\x7e]*$/.test(name)) return `"${name.replace(/["\\]/g, '\\$&')}"`
  return encodeWords(name, 'Q', wordMax, true)
}

/**
 * Mail addresses as SMTP may see them: one mailbox, nothing that could end a header line or begin a second recipient.
 * nodemailer would follow a CRLF in an address into another recipient, so every address passes here first. Pure.
 */
import { domainToASCII } from 'node:url'
import addressparser from 'nodemailer/lib/addressparser'

/** Longest address, bytes: RFC 5321, 4.5.3.1. */
const localBytesMax = 64
const addressBytesMax = 254

/** Control characters, and the two separators that only Unicode knows as line ends. */
const controls = /[\p{Cc}\u2028\u2029]/u
/**
 * Characters that an unquoted local part may not hold, in ASCII (RFC 5322, atext and dots). Quoted ones are not
 * supported.
 */
const localSyntax =
  /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\u{10ffff}-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\u{10ffff}-]+)*$/u
const domainSyntax = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i

export interface Mailbox {
  /** The address with its domain in ASCII. */
  readonly address: string
  readonly domain: string
  /** True when the address cannot be written without SMTPUTF8. */
  readonly international: boolean
}

/** Makes the address that a mail server can be given, or tells why it cannot. */
export function parseMailbox(text: string): Mailbox | { readonly fault: string } {
  if (controls.test(text)) return { fault: 'the address holds a control character' }
  const at = text.lastIndexOf('@')
  if (at < 1) return { fault: 'the address has no @' }
  const local = text.slice(0, at)
  const domain = domainToASCII(text.slice(at + 1))
  if (!localSyntax.test(local)) return { fault: 'the address is not one mailbox' }
  if (domain === '' || !domainSyntax.test(domain)) return { fault: 'the domain of the address is not valid' }
  const address = `${local}@${domain}`
  if (Buffer.byteLength(local) > localBytesMax || Buffer.byteLength(address) > addressBytesMax) {
    return { fault: 'the address is too long' }
  }
  return { address, domain, international: /[^\x20-\x7e]/.test(local) }
}

/** True when a value can stand in a header without ending it. */
export function isHeaderSafe(value: string): boolean {
  return !controls.test(value)
}

export interface Sender {
  /** The display name; '' where there is only an address. */
  readonly name: string
  readonly address: string
  readonly domain: string
}

/** Parses `Shop <shop@example.com>`, or the address alone; else tells the error. */
export function parseSender(text: string): Sender | { readonly fault: string } {
  if (!isHeaderSafe(text)) return { fault: 'it holds a control character' }
  const found = addressparser(text)
  const only = found[0]
  if (found.length !== 1 || only?.address === undefined) return { fault: 'it must be one address' }
  const mailbox = parseMailbox(only.address)
  if ('fault' in mailbox) return mailbox
  // Each mail would need SMTPUTF8, at every server on its way.
  if (mailbox.international) return { fault: 'the name before the @ must be ASCII' }
  return { name: only.name, address: mailbox.address, domain: mailbox.domain }
}

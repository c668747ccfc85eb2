/**
 * Keeps addresses, contents and secrets out of the log. Recipients are named by a keyed hash; texts of providers and
 * errors may quote an address, and lose it here.
 */
import { createHmac } from 'node:crypto'
import type { Notification, RecipientFields } from '../model.ts'

const email = /[^\s<>"'(),;:=]+@[^\s<>"'(),;:]+/g
/** A number with a plus sign, or nine digits on end: not the numbers of an IPv4 address. */
const phone = /\+\d(?:[ ().-]?\d){6,14}|\b\d{9,15}\b/g
/** A URL keeps its scheme and host: path and query may hold a token. */
const url = /\b(https?:\/\/)(?:[^\s/@]*@)?([^\s/"'<>]+)[^\s"'<>]*/g
const textMax = 500

/** Removes mail addresses, phone numbers and the paths of URLs from a text, and shortens it to 500 characters. */
export function maskText(text: string): string {
  return shortened(maskPatterns(text))
}

/** Removes the same from a stack, whose lines name files of the gateway. */
export function maskStack(stack: string): string {
  const [head = '', ...frames] = stack.split('\n    at ')
  return [maskText(head), ...frames].join('\n    at ')
}

/**
 * Masks a provider's answer to a notification. Services repeat the request: the answer ends where a structured body
 * begins, and loses the recipient's addresses and every text of the message that is at hand.
 */
export function maskAnswer(answer: string, { to, content, data }: Masked): string {
  let masked = maskKnown(answer, to).replaceAll(/<([^<>\s]+@[^<>\s]+)>/g, '$1')
  for (const text of textsIn([content, data])) masked = masked.replaceAll(text, '[content]')
  const end = maskPatterns(masked).search(structured)
  return shortened(end < 0 ? maskPatterns(masked) : maskPatterns(masked).slice(0, end).trim())
}

/** The begin of JSON, HTML or a quotation; the marks of masked parts are none. */
const structured = /["{<]|\[(?!address|number|recipient|content)/

type Masked = Pick<Notification, 'to' | 'content' | 'data'>

/** Shortest text of a message that is masked, characters: a shorter one cannot be told from ordinary words. */
const textMin = 4
/** Texts of a message that are looked for at most. */
const textsMax = 100

/** Collects the texts in a value, the longest first, because one may be within another. */
function textsIn(value: unknown): readonly string[] {
  const found: string[] = []
  const walk = (each: unknown): void => {
    if (found.length >= textsMax) return
    if (typeof each === 'string') {
      if (each.length >= textMin) found.push(each)
    } else if (typeof each === 'object' && each !== null) for (const inner of Object.values(each)) walk(inner)
  }
  walk(value)
  return found.toSorted((a, b) => b.length - a.length)
}

const maskPatterns = (text: string): string =>
  text.replaceAll(url, '$1$2/…').replaceAll(email, '[address]').replaceAll(phone, '[number]')

/** Removes the addresses of this recipient, of whatever form: a push token follows no pattern. */
function maskKnown(text: string, to: RecipientFields): string {
  const { email: mail, phone: number, pushToken, telegramChatId, slackChannel, webhookUrl } = to
  let masked = text
  for (const known of [mail, number, pushToken, telegramChatId, slackChannel, webhookUrl, to.id])
    if (known !== undefined && known.length > 2) masked = masked.replaceAll(known, '[recipient]')
  return masked
}

const shortened = (text: string): string => (text.length <= textMax ? text : `${text.slice(0, textMax)}…`)

export type RecipientForm = 'hash' | 'plain' | 'none'

/** Returns how a line names a recipient; undefined where it does not. */
export type NameRecipient = (tenant: string, recipient: string) => string | undefined

/** The first 12 hex digits of a keyed hash over tenant and recipient: the same id under two tenants differs. */
export function recipientHash(key: string | Buffer, tenant: string, recipient: string): string {
  return createHmac('sha256', key).update(`${tenant}\0${recipient}`).digest('hex').slice(0, 12)
}

/** @param key reads the key; asked once, when it is first needed */
export function createNameRecipient(form: RecipientForm, key: () => string | Buffer): NameRecipient {
  if (form === 'none') return () => undefined
  if (form === 'plain') return (_tenant, recipient) => recipient
  let known: string | Buffer | undefined
  return (tenant, recipient) => {
    known ??= key()
    return recipientHash(known, tenant, recipient)
  }
}

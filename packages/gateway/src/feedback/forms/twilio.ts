/**
 * Twilio's status callbacks and inbound messages: HMAC-SHA1 with the auth token over the address and the parameters in
 * the order of their names; of JSON the address alone, which holds the hash of the body. Source:
 * https://www.twilio.com/docs/usage/webhooks/webhooks-security
 */
import { createHash, createHmac } from 'node:crypto'
import type { Report } from '../report.ts'
import {
  defined,
  events,
  headerOf,
  isRecord,
  isSameSecret,
  jsonOf,
  malformed,
  refused,
  type WebhookForm,
} from './form.ts'

/** Error codes of numbers that nobody has, or that take no texts: https://www.twilio.com/docs/api/errors. */
const deadNumbers: ReadonlySet<string> = new Set([
  '21211',
  '21217',
  '21265',
  '21614',
  '21635',
  '30005',
  '30006',
])
/** Words that end all messages: https://help.twilio.com/articles/223134027 */
const stopWords: ReadonlySet<string> = new Set([
  ...['STOP', 'STOPALL', 'UNSUBSCRIBE', 'CANCEL', 'END', 'QUIT', 'REVOKE', 'OPTOUT'],
])
const statuses: Readonly<Record<string, Report['type']>> = {
  delivered: 'delivered',
  undelivered: 'bounce',
  failed: 'bounce',
  read: 'open',
}
type Parameters = Readonly<Record<string, readonly string[]>>

/** Signs a call as Twilio does. */
export function twilioSignature(authToken: string, url: string, parameters: Parameters): string {
  const text = Object.keys(parameters)
    .sort()
    .reduce(
      (sum, name) =>
        sum +
        [...new Set(parameters[name])]
          .sort()
          .map((value) => name + value)
          .join(''),
      url,
    )
  return createHmac('sha1', authToken).update(text, 'utf8').digest('base64')
}

/** The address as it was called, and with and without the port that its protocol has anyway: Twilio signs either. */
function addressesOf(url: string): readonly string[] {
  const found = /^(https?):\/\/([^/?#]+)(.*)$/s.exec(url)
  if (found === null) return [url]
  const [, scheme, host = '', rest] = found
  const port = scheme === 'https' ? ':443' : ':80'
  const other = host.endsWith(port) ? host.slice(0, -port.length) : `${host}${port}`
  return [url, `${scheme}://${other}${rest}`]
}

export function createTwilioForm(authToken: string): WebhookForm {
  return (call, now) => {
    const signature = headerOf(call, 'x-twilio-signature')
    if (signature === undefined) return refused('signature')
    const query = new URL(call.url).searchParams
    const bodyHash = query.get('bodySHA256')
    const text = call.body.toString('utf8')
    const parameters = bodyHash === null ? parametersOf(new URLSearchParams(text)) : {}
    const isSigned = addressesOf(call.url).some((url) =>
      isSameSecret(signature, twilioSignature(authToken, url, parameters)),
    )
    if (!isSigned) return refused('signature')
    if (bodyHash === null) return events(reportsOf(parameters, query, now))
    const hash = createHash('sha256').update(call.body).digest('hex')
    if (!isSameSecret(hash, bodyHash.toLowerCase())) return refused('signature')
    const body = jsonOf(text)
    if (!isRecord(body)) return malformed('The body is not a JSON object.')
    const fields = Object.entries(body).filter(([, value]) => typeof value === 'string')
    return events(
      reportsOf(Object.fromEntries(fields.map(([name, value]) => [name, [String(value)]])), query, now),
    )
  }
}

function parametersOf(form: URLSearchParams): Parameters {
  return Object.fromEntries([...new Set(form.keys())].map((name) => [name, form.getAll(name)]))
}

function reportsOf(parameters: Parameters, query: URLSearchParams, now: number): readonly Report[] {
  const one = (name: string): string | undefined => {
    const value = Object.hasOwn(parameters, name) ? parameters[name]![0] : undefined
    return value === '' ? undefined : value
  }
  const sid = one('MessageSid') ?? one('SmsSid')
  const status = one('MessageStatus')
  if (status === undefined) {
    const isStop = one('OptOutType') === 'STOP' || stopWords.has((one('Body') ?? '').trim().toUpperCase())
    if (!isStop || one('From') === undefined) return []
    return [
      {
        type: 'unsubscribe',
        isStop,
        at: now,
        detail: 'STOP',
        ...defined({ address: one('From'), eventId: sid }),
      },
    ]
  }
  const type = Object.hasOwn(statuses, status) ? statuses[status] : undefined
  if (type === undefined) return []
  const code = one('ErrorCode')
  return [
    {
      type,
      at: now,
      ...(type === 'bounce' && deadNumbers.has(code ?? '') ? { permanent: true } : {}),
      ...defined({
        notificationId: query.get('notification') ?? undefined,
        providerMessageId: sid,
        address: one('To'),
        detail: code === undefined ? undefined : `${status}: ${code}`,
        eventId: sid === undefined ? undefined : `${sid} ${status}`,
      }),
    },
  ]
}

/**
 * Text messages over Twilio's Messages resource. Twilio documents no key that drops a repetition of a message, so an
 * unknown outcome stays unknown. Sources: https://www.twilio.com/docs/messaging/api/message-resource,
 * https://www.twilio.com/docs/api/errors
 */
import type { Account, Message, Provider, SendResult } from '../../ports.ts'
import type { HttpAnswer } from './http-call.ts'
import {
  type Composed,
  createHttpProvider,
  failed,
  type HttpProviderOptions,
  jsonOf,
  rateLimited,
  rejected,
  textOption,
} from './http-provider.ts'

const usualUrl = 'https://api.twilio.com'
/** Of a body, characters: https://www.twilio.com/docs/api/errors/21617 */
const bodyMax = 1_600
const e164 = /^\+[1-9]\d{6,14}$/

/**
 * Numbers that nobody can be reached at: not valid (21211, 21217), no mobile (21614), not routable (21612), no region
 * that may be called (21408 is the account's), unsubscribed by STOP (21610).
 */
const deadNumbers: ReadonlySet<number> = new Set([21211, 21217, 21610, 21612, 21614])
/** The account is asked too much, or has too much in its queue: 20429, 14107, 21611 (queue of a number is full). */
const tooFast: ReadonlySet<number> = new Set([20429, 14107, 21611])
/** The account is suspended or closed (20005, 30002, 90010), may not send there (21408) or from this number (21606). */
const accountFaults: ReadonlySet<number> = new Set([20003, 20005, 20008, 21408, 21606, 30002, 90010])

export function createTwilioProvider(options: HttpProviderOptions = {}): Provider {
  return createHttpProvider(
    { name: 'twilio', channels: ['sms'], idempotent: false, compose, judge, check },
    options,
  )
}

function check(account: Account): void {
  if (account.secret === undefined) throw new Error('an auth token (secret) is expected')
  if (!/^AC[0-9a-f]{32}$/i.test(textOption(account, 'sid') ?? ''))
    throw new Error('sid is expected to be AC and 32 hexadecimal digits')
  if (textOption(account, 'from') === undefined && textOption(account, 'messagingService') === undefined)
    throw new Error('from or messagingService is expected')
}

function compose(message: Message, account: Account): Composed | SendResult {
  const phone = message.to.phone ?? ''
  if (!e164.test(phone))
    return {
      outcome: 'rejected',
      invalidAddress: true,
      detail: 'the phone number is not in the form of E.164',
    }
  const { content } = message
  const text = content.text ?? content.title ?? content.subject ?? ''
  if (text === '' || text.length > bodyMax)
    return {
      outcome: 'rejected',
      invalidAddress: false,
      detail: `the text has ${text.length} of 1 to ${bodyMax} letters`,
    }
  const sid = textOption(account, 'sid') ?? ''
  const service = textOption(account, 'messagingService')
  const form = new URLSearchParams({
    To: phone,
    Body: text,
    ...(service === undefined
      ? { From: textOption(account, 'from') ?? '' }
      : { MessagingServiceSid: service }),
  })
  return {
    url: new URL(`/2010-04-01/Accounts/${encodeURIComponent(sid)}/Messages.json`, account.url ?? usualUrl),
    headers: {
      authorization: `Basic ${Buffer.from(`${textOption(account, 'key') ?? sid}:${account.secret}`).toString('base64')}`,
      'content-type': 'application/x-www-form-urlencoded',
      // Twilio shows unknown headers nowhere; a sandbox and a proxy can tell by it which notification this was.
      'x-notification-id': message.id,
    },
    body: form.toString(),
  }
}

function judge(answer: HttpAnswer): SendResult {
  const { status } = answer
  const { sid, code = 0 } = jsonOf<{ sid: string; code: number }>(answer)
  if (status >= 200 && status < 300)
    return { outcome: 'delivered', ...(sid === undefined ? {} : { providerMessageId: sid }) }
  if (status === 429 || tooFast.has(code)) return rateLimited(answer)
  if (status === 401 || status === 403 || status >= 500 || accountFaults.has(code)) return failed(answer)
  return rejected(answer, deadNumbers.has(code))
}

/**
 * Text messages over Twilio's Messages resource. Twilio documents no key that drops a repetition of a message, so an
 * unknown outcome stays unknown. Sources: https://www.twilio.com/docs/messaging/api/message-resource,
 * https://www.twilio.com/docs/api/errors
 */
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
import type { HttpAnswer } from '../transport/http-call.ts'
import {
  type Composed,
  createHttpProvider,
  failed,
  type HttpProviderOptions,
  jsonOf,
  pairFailed,
  rateLimited,
  rejected,
  textOption,
  urlBelow,
} from '../transport/http-provider.ts'

const usualUrl = 'https://api.twilio.com'
/** Longest body, characters: https://www.twilio.com/docs/api/errors/21617 */
const bodyMax = 1_600
const e164 = /^\+[1-9]\d{6,14}$/

/**
 * Validity in seconds: https://www.twilio.com/docs/api/errors/21624. Without it Twilio keeps a message for the
 * longest time.
 */
const validityMax = 36_000

/**
 * Codes of numbers that cannot be reached: not valid (21211, 21217), no mobile (21614), a landline (21635), a short
 * code (21265), unsubscribed by STOP (21610).
 */
const deadNumbers: ReadonlySet<number> = new Set([21211, 21217, 21265, 21610, 21614, 21635])
/**
 * Codes of an account above its rate, or with too much in its queue: 20429, 14107, 21611 (queue of a number is full).
 */
const tooFast: ReadonlySet<number> = new Set([20429, 14107, 21611])
/**
 * Codes of an account that is not allowed in (20003, 20005, 20008, 20404, 30002, 90010) or is a trial (21608), whose
 * sender is invalid (21212, 21267, 21603, 21660, 21661), whose messaging service is unusable (21701–21705), or whose
 * callback is invalid (21609).
 */
const accountFaults: ReadonlySet<number> = new Set([
  20003, 20005, 20008, 20404, 21212, 21267, 21603, 21608, 21609, 21660, 21661, 21701, 21702, 21703, 21704,
  21705, 30002, 90010,
])
/** Codes that every account would get for this message: an empty text (21602, 21619), no number (21604), too long. */
const messageFaults: ReadonlySet<number> = new Set([21602, 21604, 21605, 21617, 21618, 21619, 21620, 21623])

export interface TwilioOptions extends HttpProviderOptions {
  readonly clock: Pick<Clock, 'now'>
}

export function createTwilioProvider({ clock, ...options }: TwilioOptions): Provider {
  return createHttpProvider(
    {
      name: 'twilio',
      channels: ['sms'],
      idempotent: false,
      compose: (message, account) => compose(message, account, clock.now()),
      judge,
      check,
    },
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

function compose(message: Message, account: Account, now: number): Composed | SendResult {
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
  const callback = textOption(account, 'statusCallback')
  const form = new URLSearchParams({
    To: phone,
    Body: text,
    ...(callback === undefined
      ? {}
      : { StatusCallback: `${callback}?notification=${encodeURIComponent(message.id)}` }),
    ...(service === undefined
      ? { From: textOption(account, 'from') ?? '' }
      : { MessagingServiceSid: service }),
    ...validityOf(message, now),
  })
  return {
    url: urlBelow(account.url ?? usualUrl, `/2010-04-01/Accounts/${encodeURIComponent(sid)}/Messages.json`),
    headers: {
      authorization: `Basic ${Buffer.from(`${textOption(account, 'key') ?? sid}:${account.secret}`).toString('base64')}`,
      'content-type': 'application/x-www-form-urlencoded',
      // Twilio ignores unknown headers; a sandbox or a proxy can read from it which notification this was.
      'x-notification-id': message.id,
    },
    body: form.toString(),
  }
}

/** How long Twilio may keep the message in its queue, s. */
function validityOf({ expiresAt }: Message, now: number): { readonly ValidityPeriod?: string } {
  if (expiresAt === undefined) return {}
  const seconds = Math.max(1, Math.floor((expiresAt - now) / 1_000))
  return seconds >= validityMax ? {} : { ValidityPeriod: String(seconds) }
}

/**
 * Any other code concerns the combination of account, number and message: the region (21408), the sender for that
 * country or route (21606, 21612, 21659), and codes that are new, since Twilio divides old ones now and then
 * (https://www.twilio.com/en-us/changelog, 2024). None of these ends a message that another account may carry, and
 * none counts against the account.
 */
function judge(answer: HttpAnswer): SendResult {
  const { status } = answer
  const { sid, code = 0 } = jsonOf<{ sid: string; code: number }>(answer)
  if (status >= 200 && status < 300)
    return { outcome: 'delivered', ...(sid === undefined ? {} : { providerMessageId: sid }) }
  if (status === 429 || tooFast.has(code)) return rateLimited(answer)
  if (deadNumbers.has(code)) return rejected(answer, true)
  if (accountFaults.has(code)) return failed(answer)
  if (messageFaults.has(code) || status === 413) return rejected(answer)
  const isUnnamed = code === 0 && (status === 403 || status === 404)
  if (status === 401 || status >= 500 || isUnnamed) return failed(answer)
  return pairFailed(answer)
}

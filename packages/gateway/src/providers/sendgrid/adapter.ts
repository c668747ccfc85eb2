/**
 * Mail over SendGrid's Web API v3: one personalization with one recipient a call. SendGrid knows no key that would
 * drop a repetition. Source: https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send
 */
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
import { isSendingQuota } from '../smtp/smtp-reply.ts'
import type { HttpAnswer } from '../transport/http-call.ts'
import {
  type Composed,
  createHttpProvider,
  failed,
  type HttpProviderOptions,
  jsonOf,
  rateLimited,
  rejected,
  textOption,
  urlBelow,
} from '../transport/http-provider.ts'
import { isHeaderSafe, parseMailbox, parseSender } from '../transport/mail-address.ts'
import { QuotaBackoff } from '../transport/quota-backoff.ts'

interface Refusal {
  readonly errors: readonly { readonly message?: string; readonly field?: string | null }[]
}

const usualUrl = 'https://api.sendgrid.com'

export interface SendgridOptions extends HttpProviderOptions {
  /** Decides when a used-up quota is tried again. @defaultValue the machine's clock */
  readonly clock?: Pick<Clock, 'now'>
}

export function createSendgridProvider(options: SendgridOptions = {}): Provider {
  const clock = options.clock ?? { now: () => Date.now() }
  const quotas = new QuotaBackoff()
  return createHttpProvider(
    {
      name: 'sendgrid',
      channels: ['email'],
      idempotent: false,
      compose,
      judge(answer, account) {
        return quotas.adjust(account.id, judge(answer), isSendingQuota(answer.text), clock.now())
      },
      check,
    },
    options,
  )
}

function check(account: Account): void {
  if (account.secret === undefined) throw new Error('an API key (secret) is expected')
  senderOf(account)
}

function senderOf(account: Account): { readonly email: string; readonly name?: string } {
  const from = parseSender(textOption(account, 'from') ?? '')
  if ('fault' in from) throw new Error(`from: ${from.fault}`)
  return { email: from.address, ...(from.name === '' ? {} : { name: from.name }) }
}

function compose(message: Message, account: Account): Composed | SendResult {
  const to = parseMailbox(message.to.email ?? '')
  if ('fault' in to) return { outcome: 'rejected', invalidAddress: true, detail: to.fault }
  const { id, content, unsubscribeUrl } = message
  const subject = content.subject ?? content.title ?? ''
  if (subject === '' || !isHeaderSafe(subject)) {
    const fault =
      subject === '' ? 'there is no subject, and SendGrid needs one' : 'the subject holds a control character'
    return { outcome: 'rejected', invalidAddress: false, detail: fault }
  }
  const parts = [
    ...(content.text === undefined ? [] : [{ type: 'text/plain', value: content.text }]),
    ...(content.html === undefined ? [] : [{ type: 'text/html', value: content.html }]),
  ]
  return {
    url: urlBelow(account.url ?? usualUrl, '/v3/mail/send'),
    headers: { authorization: `Bearer ${account.secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      personalizations: [{ to: [{ email: to.address }], custom_args: { notification_id: id } }],
      from: senderOf(account),
      subject,
      content: parts,
      headers: {
        'X-Notification-Id': id,
        ...(unsubscribeUrl === undefined
          ? {}
          : {
              'List-Unsubscribe': `<${unsubscribeUrl}>`,
              'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
            }),
      },
    }),
  }
}

function judge(answer: HttpAnswer): SendResult {
  const { status, headers } = answer
  if (status >= 200 && status < 300) {
    const messageId = headers['x-message-id']
    return {
      outcome: 'delivered',
      ...(typeof messageId === 'string' ? { providerMessageId: messageId } : {}),
    }
  }
  if (status === 429)
    return rateLimited(answer, headers['retry-after'] ?? resetOf(headers['x-ratelimit-reset']))
  // “Maximum credits exceeded”: the plan's mails of the day are used up. SendGrid answers 401 for it.
  if (status === 401 && isSendingQuota(answer.text)) return rateLimited(answer)
  // A wrong key, an unverified sender or a suspended account is not the message's fault.
  if (status === 401 || status === 403 || status >= 500) return failed(answer)
  const { errors } = jsonOf<Refusal>(answer)
  // An answer without errors does not come from SendGrid, but from something in between or a wrong address.
  if (!Array.isArray(errors)) return status === 413 ? rejected(answer) : failed(answer)
  const isAbout = (field: RegExp): boolean => errors.some((error) => field.test(error?.field ?? ''))
  if (isAbout(/^from\b/)) return failed(answer)
  return rejected(answer, isAbout(/^personalizations\.\d+\.to/))
}

/** Converts `X-RateLimit-Reset`, an instant in Unix seconds, to the form of a `Retry-After`. */
function resetOf(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' && /^\d{1,12}$/.test(header)
    ? new Date(Number(header) * 1_000).toUTCString()
    : undefined
}

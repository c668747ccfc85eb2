/**
 * Mail over Amazon SES v2: the whole mail as SMTP would carry it, in a signed request (Signature Version 4). SES
 * knows no key that drops a repetition. Sources:
 * https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html,
 * https://docs.aws.amazon.com/ses/latest/dg/manage-sending-quotas-errors.html
 */
import { AwsV4Signer } from 'aws4fetch'
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
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
import { isHeaderSafe, parseMailbox, parseSender, type Sender } from './mail-address.ts'
import { composeMail } from './mail-mime.ts'

export interface SesOptions extends HttpProviderOptions {
  /** Gives the header Date and the instant of the signature. */
  readonly clock: Pick<Clock, 'now'>
}

/** Above the sending rate, or above the quota of the day. */
const tooFast: ReadonlySet<string> = new Set([
  'TooManyRequestsException',
  'LimitExceededException',
  'ThrottlingException',
  'Throttling',
])
/** A sender that is not verified, and an account that may not send, concern every mail. */
const accountFaults: ReadonlySet<string> = new Set([
  'AccountSuspendedException',
  'SendingPausedException',
  'MailFromDomainNotVerifiedException',
  'NotFoundException',
])

export function createSesProvider({ clock, ...options }: SesOptions): Provider {
  /** Signing keys by day and account: deriving one takes four rounds of HMAC. */
  const cache = new Map<string, ArrayBuffer>()
  return createHttpProvider(
    {
      name: 'ses',
      channels: ['email'],
      idempotent: false,
      judge,
      check,
      compose: (message, account) => compose(message, account, clock.now(), cache),
    },
    options,
  )
}

function check(account: Account): void {
  if (account.secret === undefined) throw new Error('a secret access key (secret) is expected')
  for (const name of ['accessKeyId', 'region'])
    if (textOption(account, name) === undefined) throw new Error(`${name} is expected`)
  senderOf(account)
}

function senderOf(account: Account): Sender {
  const from = parseSender(textOption(account, 'from') ?? '')
  if ('fault' in from) throw new Error(`from: ${from.fault}`)
  return from
}

async function compose(
  message: Message,
  account: Account,
  now: number,
  cache: Map<string, ArrayBuffer>,
): Promise<Composed | SendResult> {
  const to = parseMailbox(message.to.email ?? '')
  if ('fault' in to) return { outcome: 'rejected', invalidAddress: true, detail: to.fault }
  if (to.international)
    return { outcome: 'rejected', invalidAddress: true, detail: 'SES takes only ASCII before the @' }
  const { id, content, unsubscribeUrl } = message
  if (!isHeaderSafe(content.subject ?? content.title ?? ''))
    return { outcome: 'rejected', invalidAddress: false, detail: 'the subject holds a control character' }
  const from = senderOf(account)
  const mail = composeMail({
    id,
    from,
    to: to.address,
    content,
    date: now,
    ...(unsubscribeUrl === undefined ? {} : { unsubscribeUrl }),
  })
  const configurationSet = textOption(account, 'configurationSet')
  const body = JSON.stringify({
    FromEmailAddress: from.address,
    Destination: { ToAddresses: [to.address] },
    Content: { Raw: { Data: Buffer.from(mail).toString('base64') } },
    EmailTags: [{ Name: 'notification-id', Value: id }],
    ...(configurationSet === undefined ? {} : { ConfigurationSetName: configurationSet }),
  })
  const region = textOption(account, 'region') ?? ''
  const base = account.url ?? `https://email.${region}.amazonaws.com`
  const sessionToken = textOption(account, 'sessionToken')
  const signed = await new AwsV4Signer({
    method: 'POST',
    url: new URL('/v2/email/outbound-emails', base).href,
    headers: { 'content-type': 'application/json' },
    body,
    accessKeyId: textOption(account, 'accessKeyId') ?? '',
    secretAccessKey: account.secret ?? '',
    ...(sessionToken === undefined ? {} : { sessionToken }),
    service: 'ses',
    region,
    datetime: new Date(now).toISOString().replace(/[:-]|\.\d{3}/g, ''),
    cache,
  }).sign()
  return { url: signed.url, headers: Object.fromEntries(signed.headers as Headers), body }
}

function judge(answer: HttpAnswer): SendResult {
  const { status, headers } = answer
  if (status >= 200 && status < 300) {
    const { MessageId: id } = jsonOf<{ MessageId: string }>(answer)
    return { outcome: 'delivered', ...(id === undefined ? {} : { providerMessageId: id }) }
  }
  // `MessageRejected:http://…`: what stands behind the colon is a namespace.
  const [kind = ''] = String(headers['x-amzn-errortype'] ?? '').split(':')
  if (status === 429 || tooFast.has(kind)) return rateLimited(answer)
  if (status === 401 || status === 403 || status >= 500 || accountFaults.has(kind)) return failed(answer)
  return rejected(
    answer,
    /address(?:es)? .*(?:invalid|illegal|blacklisted)|Illegal address/i.test(answer.text),
  )
}

/**
 * Mail over Amazon SES v2: the whole mail as SMTP would carry it, in a signed request (Signature Version 4). SES
 * knows no key that drops a repetition. Sources:
 * https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html,
 * https://docs.aws.amazon.com/ses/latest/dg/manage-sending-quotas-errors.html
 */
import { AwsV4Signer } from 'aws4fetch'
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
import { isSendingQuota, judgeUnverified, unverifiedIdentities } from '../smtp/smtp-reply.ts'
import { detailOf, type HttpAnswer } from '../transport/http-call.ts'
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
import { isHeaderSafe, parseMailbox, parseSender, type Sender } from '../transport/mail-address.ts'
import { composeMail } from '../transport/mail-mime.ts'
import { QuotaBackoff } from '../transport/quota-backoff.ts'

export interface SesOptions extends HttpProviderOptions {
  /** Gives the header Date and the instant of the signature. */
  readonly clock: Pick<Clock, 'now'>
}

/**
 * Kinds that mean above the sending rate, or above the quota of the day. Written without `Exception`, which some of
 * AWS's servers leave out.
 */
const tooFast: ReadonlySet<string> = new Set(['TooManyRequests', 'LimitExceeded', 'Throttling'])
/**
 * Kinds that every mail of the account would meet: an unverified sender, an account that may not send, an invalid
 * key.
 * https://docs.aws.amazon.com/ses/latest/APIReference-V2/CommonErrors.html
 */
const accountFaults: ReadonlySet<string> = new Set([
  'AccountSuspended',
  'SendingPaused',
  'MailFromDomainNotVerified',
  'NotFound',
  'AccessDenied',
  'NotAuthorized',
  'OptInRequired',
  'ExpiredToken',
  'RequestExpired',
  'UnrecognizedClient',
  'InvalidClientTokenId',
  'InvalidSignature',
  'SignatureDoesNotMatch',
  'IncompleteSignature',
  'MissingAuthenticationToken',
])

export function createSesProvider({ clock, ...options }: SesOptions): Provider {
  /** Signing keys by day and account: deriving one takes four rounds of HMAC. */
  const cache = new Map<string, ArrayBuffer>()
  const quotas = new QuotaBackoff()
  return createHttpProvider(
    {
      name: 'ses',
      channels: ['email'],
      idempotent: false,
      judge(answer, account) {
        return quotas.adjust(account.id, judge(answer, account), isSendingQuota(answer.text), clock.now())
      },
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
    url: urlBelow(base, '/v2/email/outbound-emails').href,
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

function judge(answer: HttpAnswer, account: Account): SendResult {
  const { status, text } = answer
  if (status >= 200 && status < 300) {
    const { MessageId: id } = jsonOf<{ MessageId: string }>(answer)
    return { outcome: 'delivered', ...(id === undefined ? {} : { providerMessageId: id }) }
  }
  const kind = kindOf(answer)
  if (status === 429 || tooFast.has(kind)) return rateLimited(answer)
  if (status === 401 || status === 403 || status >= 500 || accountFaults.has(kind)) return failed(answer)
  // An answer that names no kind does not come from SES, but from something in between or a wrong address.
  if (kind === '' && status !== 413) return failed(answer)
  const identities = unverifiedIdentities(text)
  if (identities !== undefined)
    return judgeUnverified(identities, detailOf(answer), senderOf(account).address)
  return rejected(answer, /address(?:es)? .*(?:invalid|illegal|blacklisted)|Illegal address/i.test(text))
}

/**
 * Reads the kind of an error from the header, where `MessageRejected:http://…` has a namespace behind the colon, else
 * from the body.
 */
function kindOf(answer: HttpAnswer): string {
  const { __type: type, code } = jsonOf<{ __type: string; code: string }>(answer)
  const kind = String(answer.headers['x-amzn-errortype'] ?? type ?? code ?? '')
  return kind
    .replace(/^.*#/, '')
    .replace(/:.*$/, '')
    .replace(/Exception$/, '')
}

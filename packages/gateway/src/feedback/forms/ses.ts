/**
 * Amazon SES through SNS: RSA signatures with a certificate of Amazon's, which is fetched from SNS hosts only and only
 * for topics of the operator's. Sources: https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html,
 * https://docs.aws.amazon.com/ses/latest/dg/event-publishing-retrieving-sns-contents.html
 */
import { createVerify } from 'node:crypto'
import type { Report } from '../report.ts'
import {
  defined,
  events,
  instantOf,
  isRecord,
  type JsonRecord,
  jsonOf,
  listOf,
  malformed,
  recordOf,
  refused,
  textOf,
  type WebhookForm,
  type WebhookVerdict,
} from './form.ts'

export interface SesFormOptions {
  /** Amazon resource names of the operator's topics. */
  readonly topics: ReadonlySet<string>
  /** The certificate of all signatures, PEM. @defaultValue that of each message's SigningCertURL */
  readonly certificate?: string
  /** Fetches a certificate of a SNS host, PEM. Rejects where it cannot be had now. */
  readonly certificateOf: (url: string) => Promise<string>
  /** Confirms a subscription by a GET of an address at a SNS host. */
  readonly confirm: (url: string) => Promise<void>
}

/** Fields that are signed, in their order. */
const signed = {
  Notification: ['Message', 'MessageId', 'Subject', 'Timestamp', 'TopicArn', 'Type'],
  SubscriptionConfirmation: [
    'Message',
    'MessageId',
    'SubscribeURL',
    'Timestamp',
    'Token',
    'TopicArn',
    'Type',
  ],
  UnsubscribeConfirmation: ['Message', 'MessageId', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'],
} as const
type Kind = keyof typeof signed

const snsHost = /^sns\.[a-zA-Z0-9-]{3,}\.amazonaws\.com(\.cn)?$/
/** The longest age of a message, ms: SNS repeats a delivery for up to an hour by its usual policies. */
const ageMaxMs = 3_600_000
/** A clock of Amazon's may be ahead by this much, ms. */
const aheadMaxMs = 300_000

/** True for an address of SNS itself. */
export function isSnsUrl(text: string | undefined): text is string {
  if (text === undefined || !URL.canParse(text)) return false
  const { protocol, hostname, port, username, password } = new URL(text)
  return protocol === 'https:' && port === '' && username === '' && password === '' && snsHost.test(hostname)
}

/** The text that SNS signs: names and values, a line each; a subject only where there is one. */
function signedText(message: JsonRecord, kind: Kind): string {
  return signed[kind]
    .filter((name) => name !== 'Subject' || typeof message.Subject === 'string')
    .map((name) => `${name}\n${String(message[name])}\n`)
    .join('')
}

export function createSesForm(options: SesFormOptions): WebhookForm {
  const { topics, certificate, certificateOf, confirm } = options

  async function isSigned(message: JsonRecord, kind: Kind): Promise<boolean> {
    const { SignatureVersion: version, SigningCertURL: url, Signature: signature } = message
    const algorithm = version === '1' ? 'RSA-SHA1' : version === '2' ? 'RSA-SHA256' : undefined
    if (algorithm === undefined || typeof signature !== 'string') return false
    if (
      certificate === undefined &&
      !(isSnsUrl(textOf(url)) && new URL(url as string).pathname.endsWith('.pem'))
    )
      return false
    const pem = certificate ?? (await certificateOf(url as string))
    try {
      return createVerify(algorithm)
        .update(signedText(message, kind), 'utf8')
        .verify(pem, signature, 'base64')
    } catch {
      return false
    }
  }

  return async (call, now): Promise<WebhookVerdict> => {
    const message = jsonOf(call.body.toString('utf8'))
    if (!isRecord(message)) return refused('signature')
    const kind = textOf(message.Type)
    if (kind === undefined || !Object.hasOwn(signed, kind)) return refused('signature')
    const needed = signed[kind as Kind].filter((name) => name !== 'Subject')
    if (needed.some((name) => typeof message[name] !== 'string')) return refused('signature')
    // Before anything is fetched: nobody else makes this gateway call.
    if (!topics.has(message.TopicArn as string)) return refused('foreign')
    if (!(await isSigned(message, kind as Kind))) return refused('signature')
    const at = Date.parse(message.Timestamp as string)
    if (!(now - at <= ageMaxMs && at - now <= aheadMaxMs)) return refused('stale')
    if (kind === 'UnsubscribeConfirmation') return events([])
    if (kind === 'SubscriptionConfirmation') {
      const url = message.SubscribeURL as string
      if (!isSnsUrl(url)) return refused('foreign')
      await confirm(url)
      return events([])
    }
    const event = jsonOf(message.Message as string)
    // SNS also carries plain texts, such as the notice that a destination was set up.
    if (!isRecord(event)) return events([])
    return isRecord(event.mail)
      ? events(reportsOf(event, event.mail, now))
      : malformed('The message has no mail.')
  }
}

function reportsOf(event: JsonRecord, mail: JsonRecord, now: number): readonly Report[] {
  const [tag] = listOf(recordOf(mail.tags)['notification-id'])
  const names = defined({ notificationId: textOf(tag), providerMessageId: textOf(mail.messageId) })
  const kind = event.eventType ?? event.notificationType
  const part = (name: string): JsonRecord => recordOf(event[name])
  const of = (type: Report['type'], at: unknown): Report => ({ type, at: instantOf(at, now), ...names })
  /** One report for each recipient that an event names. */
  function forEach(recipients: unknown, report: Report, id: unknown): readonly Report[] {
    return listOf(recipients).map((each) => {
      const address = textOf(recordOf(each).emailAddress) ?? textOf(each)
      return {
        ...report,
        ...defined({
          address,
          detail: textOf(recordOf(each).diagnosticCode) ?? report.detail,
          eventId: typeof id === 'string' ? `${id} ${address}` : undefined,
        }),
      }
    })
  }
  switch (kind) {
    case 'Bounce': {
      const { bouncedRecipients, bounceType, timestamp, feedbackId } = part('bounce')
      const report = {
        ...of('bounce', timestamp),
        ...(bounceType === 'Permanent' ? { permanent: true } : {}),
      }
      return forEach(bouncedRecipients, report, feedbackId)
    }
    case 'Complaint': {
      const { complainedRecipients, timestamp, feedbackId, complaintFeedbackType } = part('complaint')
      const detail = textOf(complaintFeedbackType)
      const report = { ...of('complaint', timestamp), ...(detail === undefined ? {} : { detail }) }
      return forEach(complainedRecipients, report, feedbackId)
    }
    case 'Delivery':
      return [of('delivered', part('delivery').timestamp)]
    case 'Open':
      return [of('open', part('open').timestamp)]
    case 'Click':
      return [of('click', part('click').timestamp)]
    case 'Subscription':
      return [of('unsubscribe', part('subscription').timestamp)]
    default:
      return []
  }
}

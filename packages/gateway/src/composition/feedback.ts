/**
 * Composes feedback: what providers and callers report of sent notifications, and the index that leads from a
 * provider's ids to them.
 */
import type { Config } from '../config/config.ts'
import type { FeedbackConfig } from '../config/feedback.ts'
import { createCertificates } from '../feedback/certificates.ts'
import { createCorrelation } from '../feedback/correlation.ts'
import { createFeedback } from '../feedback/feedback.ts'
import type { WebhookForm } from '../feedback/forms/form.ts'
import { createMailgunForm } from '../feedback/forms/mailgun.ts'
import { createPostmarkForm } from '../feedback/forms/postmark.ts'
import { createSendgridForm } from '../feedback/forms/sendgrid.ts'
import { createSesForm } from '../feedback/forms/ses.ts'
import { createTwilioForm } from '../feedback/forms/twilio.ts'
import { createSentIndex } from '../feedback/sent-index.ts'
import { createSentKeys, sentForMs } from '../feedback/sent-keys.ts'
import { createWebhooks, type WebhookAccount } from '../feedback/webhooks.ts'
import { createRecipientEditor, type RecipientEditor } from '../http/recipient-editor.ts'
import { createLineLimit } from '../observability/line-limit.ts'
import type { Provider } from '../ports.ts'
import { createSnsClient } from '../providers/ses/sns-client.ts'
import type { Admission } from './admission.ts'
import { egressOf } from './pools.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { SecretKeys } from './secret-keys.ts'
import type { Storage } from './storage.ts'

export type FeedbackParts = ReturnType<typeof createFeedbackParts>

/** Interval between two rounds in which old feedback is removed, ms. */
const pruneEveryMs = 3_600_000
/** Lines about refused calls in a second, of one account and reason. */
const linesPerSecond = 1

export function createFeedbackParts(
  { config, parts, clock, log, members, fleet, errorsOf }: RuntimeContext,
  { store }: Storage,
  { gate }: Pick<Admission, 'gate'>,
  secretKeys: SecretKeys,
) {
  const onError = errorsOf('http')
  const editor: RecipientEditor = createRecipientEditor({ gate, store })
  const keys = createSentKeys(() => secretKeys('log'))
  const feedback = createFeedback({
    record: store.feedback,
    correlate: createCorrelation({ record: store.feedback, keys, clock }),
    edit: editor.edit,
    clock,
    tries: () => members.holds('feedback'),
    isShared: fleet !== undefined || parts.members !== undefined,
    onUnknown: (reports) =>
      log.info({
        event: 'feedback.unknown',
        count: reports.length,
        type: reports[0]!.report.type,
        ...reports[0]!.by,
      }),
    onError,
  })
  const lines = createLineLimit(linesPerSecond)
  const sns = createSnsClient({ allowPrivate: config.network.allowPrivate, egress: egressOf(config) })
  const certificateOf = createCertificates({ download: sns.get, clock })
  const confirm = async (url: string): Promise<void> => void (await sns.get(url))
  function formOf(feedback: FeedbackConfig): WebhookForm {
    switch (feedback.form) {
      case 'ses': {
        const { topics, certificate } = feedback
        const own = certificate === undefined ? {} : { certificate }
        return createSesForm({ topics: new Set(topics), certificateOf, confirm, ...own })
      }
      case 'sendgrid':
        return createSendgridForm(feedback.publicKey)
      case 'twilio':
        return createTwilioForm(feedback.authToken)
      case 'mailgun':
        return createMailgunForm(feedback.signingKey)
      case 'postmark':
        return createPostmarkForm(feedback.user, feedback.password)
    }
  }
  const accountsOf = ({ pools }: Config): readonly WebhookAccount[] =>
    pools.flatMap(({ channel, accounts }) =>
      accounts.flatMap(({ account, feedback }) =>
        feedback === undefined
          ? []
          : [{ channel, account: account.id, form: feedback.form, read: formOf(feedback) }],
      ),
    )
  const accounts = accountsOf(config)
  const webhooks = createWebhooks({
    accounts,
    feedback,
    clock,
    peers: fleet?.state.peers,
    onRefused: ({ channel, account, form }, reason) =>
      lines.take(`${channel}/${account} ${reason}`, (suppressedLines) =>
        log.warn({
          event: 'feedback.refused',
          ...{ channel, account, form, reason },
          ...(suppressedLines === 0 ? {} : { suppressedLines }),
        }),
      ),
  })
  /** Accounts whose inbound messages name a recipient by the number alone. */
  const stopping = new Set(
    accounts.filter(({ form }) => form === 'twilio').map(({ channel, account }) => `${channel}/${account}`),
  )
  const sentIndex = createSentIndex({
    record: store.feedback,
    keys,
    findsByAddress: (channel, { id }) => stopping.has(`${channel}/${id}`),
    clock,
    onError,
  })
  let disarm = (): void => {}

  function prune(): void {
    const now = clock.now()
    disarm = clock.at(now + pruneEveryMs, prune)
    if (!members.holds('retention')) return
    store.feedback
      .prune({ events: now - config.retention.notificationsMs, sent: now - sentForMs })
      .catch((error) => onError('forget old feedback', error))
  }

  return {
    editor,
    feedback,
    webhooks,
    report: () => ({ ...feedback.counts(), refusals: webhooks.refusals() }),
    /** Reads the secrets of webhooks anew; the returned function puts them in force. */
    prepare(next: Config): () => void {
      const fresh = accountsOf(next)
      return () => webhooks.replace(fresh)
    },
    /** A provider whose sent messages are noted. A simulation and its providers stay as they are. */
    watched: (provider: Provider): Provider =>
      parts.store === undefined && parts.providers === undefined ? sentIndex.watched(provider) : provider,
    start(): void {
      disarm = clock.at(clock.now() + pruneEveryMs, prune)
      feedback.start()
    },
    /** Ends what is under way; nothing is sent any more then. */
    async stop(): Promise<void> {
      disarm()
      await feedback.stop()
      await sentIndex.close()
      lines.close()
      sns.close()
    },
  }
}

/**
 * Mail over SMTP: one recipient a mail, over connections that stay open. A mail reaches the server two round trips
 * after it is handed over, always equally fast, because the limits are counted at the server's socket.
 */
import { SluiceError } from '../../errors.ts'
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
import { isHeaderSafe, parseMailbox } from '../transport/mail-address.ts'
import { composeMail } from '../transport/mail-mime.ts'
import { QuotaBackoff } from '../transport/quota-backoff.ts'
import { createDkimSigner, type DkimSigner, trial } from './dkim-signer.ts'
import { parseSmtpAccount, type SmtpAccount, type SmtpDefaults } from './smtp-account.ts'
import { SmtpPool } from './smtp-pool.ts'
import { isSendingQuota } from './smtp-reply.ts'
import type { Envelope } from './smtp-transaction.ts'

export interface SmtpOptions extends SmtpDefaults {
  /** Gives the header Date. @defaultValue the machine's clock */
  readonly clock?: Pick<Clock, 'now'>
  /** Time to connect, greet, secure and log in, ms. @defaultValue 5_000 */
  readonly connectMs?: number
  /** Time from `send` to its result, ms. @defaultValue 10_000 */
  readonly deadlineMs?: number
  /** Time without traffic after which a connection is closed, ms. @defaultValue 600_000 */
  readonly idleMs?: number
  /** Most mails of an account that wait for a connection; above it they fail at once. @defaultValue 10_000 */
  readonly waitingMax?: number
}

interface Post {
  readonly account: SmtpAccount
  readonly pool: SmtpPool
  readonly sign: DkimSigner | undefined
}

export function createSmtpProvider(options: SmtpOptions = {}): Provider {
  const { connectMs = 5_000, deadlineMs = 10_000, idleMs = 600_000, waitingMax = 10_000 } = options
  const clock = options.clock ?? { now: () => Date.now() }
  const posts = new Map<string, Post>()
  const quotas = new QuotaBackoff()

  function postOf(account: Account): Post {
    const key = `${account.id} ${account.url}`
    let post = posts.get(key)
    if (post === undefined) {
      const parsed = parseSmtpAccount(account, options)
      const pool = new SmtpPool(parsed, { connectMs, deadlineMs, idleMs, waitingMax })
      post = { account: parsed, pool, sign: createDkimSigner(parsed) }
      posts.set(key, post)
    }
    return post
  }

  return {
    name: 'smtp',
    // A server accepts a second mail with the same Message-ID; at most the reader's program hides one of them.
    idempotent: false,
    tellsWritten: true,
    channels: ['email'],
    async send(message, account, signal, onWritten) {
      try {
        const post = postOf(account)
        const envelope = write(message, post.account, clock.now())
        if ('outcome' in envelope) return envelope
        const signed =
          post.sign === undefined ? envelope : { ...envelope, mail: await post.sign(envelope.mail) }
        const result = await post.pool.send(signed, signal, onWritten)
        return quotas.adjust(account.id, result, isSendingQuota(result.detail ?? ''), clock.now())
      } catch (error) {
        return { outcome: 'failed', detail: (error as Error).message }
      }
    },
    /** Throws INVALID_CONFIG where the account cannot work; an unreachable server is not an error. */
    async warm(account) {
      const { pool, sign } = postOf(account)
      await sign?.(trial).catch((error: Error) => {
        throw new SluiceError('INVALID_CONFIG', `smtp account ${account.id}: ${error.message}`)
      })
      await pool.warm()
    },
    async close() {
      await Promise.all([...posts.values()].map(({ pool }) => pool.close()))
    },
  }
}

/** Composes the mail of a message, or tells why it cannot: no value may end a header or name a second recipient. */
function write(message: Message, { from, idHeader }: SmtpAccount, date: number): Envelope | SendResult {
  const to = parseMailbox(message.to.email ?? '')
  if ('fault' in to) return { outcome: 'rejected', invalidAddress: true, detail: to.fault }
  const { id, content, unsubscribeUrl } = message
  for (const [name, value] of Object.entries({
    id,
    subject: content.subject,
    title: content.title,
    unsubscribeUrl,
  })) {
    if (value === undefined || isHeaderSafe(value)) continue
    return {
      outcome: 'rejected',
      invalidAddress: false,
      detail: `the ${name} holds a line break or control character`,
    }
  }
  const mail = composeMail({
    id,
    from,
    to: to.address,
    content,
    date,
    idHeader,
    ...(unsubscribeUrl === undefined ? {} : { unsubscribeUrl }),
  })
  return { from: from.address, to: to.address, international: to.international, mail }
}

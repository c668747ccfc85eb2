/**
 * Webhooks of providers: each account has an address of its own, because each form needs its own key and a body does
 * not say whose it is. A call whose signature does not hold leaves nothing behind but a count.
 */
import { SluiceError } from '../errors.ts'
import type { Channel } from '../model.ts'
import type { Peers } from '../ports/fleet.ts'
import type { Clock } from '../ports.ts'
import type { Feedback } from './feedback.ts'
import { type RefusalReason, refusalReasons, type WebhookCall, type WebhookForm } from './forms/form.ts'

/** An account whose provider calls back. */
export interface WebhookAccount {
  readonly channel: Channel
  readonly account: string
  readonly form: string
  readonly read: WebhookForm
}

export interface WebhooksOptions {
  readonly accounts: readonly WebhookAccount[]
  readonly feedback: Pick<Feedback, 'report'>
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
  readonly onRefused: (account: WebhookAccount, reason: RefusalReason) => void
  /** Tells the other processes which calls were carried out. @defaultValue there are none */
  readonly peers?: Pick<Peers, 'tell' | 'listen'> | undefined
}

export interface Webhooks {
  /**
   * Takes a call; resolves with the number of its events when they are on disk.
   * @throws SluiceError NOT_FOUND for an account without feedback, UNAUTHENTICATED for a call that is not its
   * provider's or too old, INVALID_REQUEST for one that is malformed, STORE_UNAVAILABLE
   */
  take(channel: string, account: string, call: WebhookCall): Promise<number>
  /** Puts other secrets in force; the accounts are the same. */
  replace(accounts: readonly WebhookAccount[]): void
  /** Counts refused calls by form and reason, and the forms that are configured. */
  refusals(): Iterable<readonly [form: string, reason: RefusalReason, count: number]>
}

/** Tokens that are remembered: more calls than these within the age of a signature find old ones forgotten. */
const tokensMax = 100_000
const tokenTopic = 'webhook-token'

const details: Readonly<Record<RefusalReason, string>> = {
  signature: 'The call is not authentic: its signature or password does not hold.',
  stale: 'The call is too old.',
  replayed: 'This call was there before.',
  foreign: 'The call is of a topic that is not configured.',
}

export function createWebhooks({ accounts, feedback, clock, onRefused, peers }: WebhooksOptions): Webhooks {
  const named = (list: readonly WebhookAccount[]) =>
    new Map(list.map((each) => [`${each.channel}/${each.account}`, each]))
  let byName = named(accounts)
  /** Tokens of calls that were carried out, here or at another process, with the name of their account, in their order. */
  const tokens = new Set<string>()
  function remember(token: string): void {
    tokens.add(token)
    if (tokens.size > tokensMax) tokens.delete(tokens.values().next().value!)
  }
  peers?.listen(tokenTopic, (token) => remember(token as string))

  interface Refusals {
    readonly form: string
    readonly reason: RefusalReason
    count: number
  }
  const counts = new Map<string, Refusals>(
    [...new Set(accounts.map(({ form }) => form))].flatMap((form) =>
      refusalReasons.map((reason) => [`${form} ${reason}`, { form, reason, count: 0 }] as const),
    ),
  )

  function refuse(account: WebhookAccount, reason: RefusalReason): SluiceError {
    counts.get(`${account.form} ${reason}`)!.count += 1
    onRefused(account, reason)
    const challenge = account.form === 'postmark' ? { challenge: 'Basic realm="feedback"' } : {}
    return new SluiceError('UNAUTHENTICATED', details[reason], challenge)
  }

  return {
    async take(channel, account, call) {
      const known = byName.get(`${channel}/${account}`)
      if (known === undefined) throw new SluiceError('NOT_FOUND', 'No account of this name takes feedback.')
      const aheadMs = clock.aheadMs?.() ?? 0
      const verdict = await known.read(call, clock.now() + aheadMs)
      switch (verdict.kind) {
        case 'refused':
          throw refuse(known, verdict.reason)
        case 'malformed':
          throw new SluiceError('INVALID_REQUEST', verdict.detail)
        case 'events': {
          const { reports } = verdict
          const token = verdict.token === undefined ? undefined : `${channel}/${account} ${verdict.token}`
          if (token !== undefined && tokens.has(token)) throw refuse(known, 'replayed')
          if (reports.length > 0)
            await feedback.report(
              reports.map((report) => ({ ...report, at: report.at - aheadMs, toldAt: report.at })),
              { channel: known.channel, account },
            )
          // A call that could not be carried out may be repeated.
          if (token !== undefined) {
            remember(token)
            peers?.tell(tokenTopic, token)
          }
          return reports.length
        }
      }
    },
    replace(next) {
      byName = named(next)
    },
    *refusals() {
      for (const { form, reason, count } of counts.values()) yield [form, reason, count]
    },
  }
}

/**
 * Messages into Slack: with a bot token by chat.postMessage to the recipient's channel, or without one into the one
 * channel of an incoming webhook, whose address is the account's. Slack answers 200 to most refusals and says in the
 * body what was wrong. Sources: https://docs.slack.dev/reference/methods/chat.postMessage,
 * https://docs.slack.dev/apis/web-api/rate-limits,
 * https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
 */
import type { Account, Message, Provider, SendResult } from '../../ports.ts'
import { detailOf, type HttpAnswer } from './http-call.ts'
import {
  type Composed,
  createHttpProvider,
  failed,
  type HttpProviderOptions,
  jsonOf,
  rateLimited,
  rejected,
} from './http-provider.ts'

const usualUrl = 'https://slack.com'
/** Longer texts are cut by Slack: https://docs.slack.dev/reference/methods/chat.postMessage */
const textMax = 40_000
const slackChannel = /^[#@]?[A-Za-z0-9._-]{1,100}$/

const deadChannels: ReadonlySet<string> = new Set([
  'channel_not_found',
  'is_archived',
  'channel_is_archived',
  'user_not_found',
  'users_not_found',
  'not_in_channel',
  'cannot_dm_bot',
  'no_service',
])
const accountFaults: ReadonlySet<string> = new Set([
  'not_authed',
  'invalid_auth',
  'account_inactive',
  'token_revoked',
  'token_expired',
  'no_permission',
  'missing_scope',
  'org_login_required',
  'ekm_access_denied',
  'team_access_not_granted',
  'access_denied',
  'invalid_token',
  'fatal_error',
  'internal_error',
  'service_unavailable',
  'request_timeout',
])
const tooFast: ReadonlySet<string> = new Set(['rate_limited', 'ratelimited', 'message_limit_exceeded'])

export function createSlackProvider(options: HttpProviderOptions = {}): Provider {
  return createHttpProvider(
    { name: 'slack', channels: ['slack'], idempotent: false, compose, judge, check },
    options,
  )
}

function check(account: Account): void {
  if (account.secret === undefined && !isWebhook(account))
    throw new Error('a bot token (secret) or the url of an incoming webhook is expected')
}

function isWebhook({ url }: Account): boolean {
  return url !== undefined && new URL(url).pathname.startsWith('/services/')
}

function compose(message: Message, account: Account): Composed | SendResult {
  const { content, to } = message
  const text = content.text ?? content.title ?? content.subject ?? ''
  if (text === '' || text.length > textMax)
    return {
      outcome: 'rejected',
      invalidAddress: false,
      detail: `the text has ${text.length} of 1 to ${textMax} letters`,
    }
  const headers = { 'content-type': 'application/json; charset=utf-8', 'x-notification-id': message.id }
  if (isWebhook(account)) return { url: new URL(account.url!), headers, body: JSON.stringify({ text }) }
  if (!slackChannel.test(to.slackChannel ?? ''))
    return { outcome: 'rejected', invalidAddress: true, detail: 'the channel is neither an id nor a name' }
  return {
    url: new URL('/api/chat.postMessage', account.url ?? usualUrl),
    headers: { ...headers, authorization: `Bearer ${account.secret}` },
    body: JSON.stringify({ channel: to.slackChannel, text }),
  }
}

function judge(answer: HttpAnswer, account: Account): SendResult {
  const { status, text } = answer
  if (status === 429) return rateLimited(answer)
  if (status >= 500) return failed(answer)
  if (isWebhook(account)) {
    const said = text.trim()
    if (status === 200) return { outcome: 'delivered', detail: said.slice(0, 20) }
    return judgeWord(answer, said)
  }
  const { ok, ts, error = '' } = jsonOf<{ ok: boolean; ts: string; error: string }>(answer)
  if (ok === true) return { outcome: 'delivered', ...(ts === undefined ? {} : { providerMessageId: ts }) }
  // An answer that is no JSON comes from something in between.
  return error === '' ? { outcome: 'failed', detail: detailOf(answer) } : judgeWord(answer, error)
}

function judgeWord(answer: HttpAnswer, word: string): SendResult {
  if (tooFast.has(word)) return rateLimited(answer)
  if (accountFaults.has(word)) return failed(answer)
  return rejected(answer, deadChannels.has(word))
}

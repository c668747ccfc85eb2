/**
 * Messages into Slack: with a bot token by chat.postMessage to the recipient's channel, or by an incoming webhook
 * into its one channel, where the webhook's address is the account's. Slack answers 200 to most refusals and names
 * the error in the body. Sources: https://docs.slack.dev/reference/methods/chat.postMessage,
 * https://docs.slack.dev/apis/web-api/rate-limits,
 * https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
 */

import type { Account, Message, Provider, SendResult } from '../../ports.ts'
import type { HttpAnswer } from '../transport/http-call.ts'
import {
  type Composed,
  createHttpProvider,
  failed,
  type HttpProviderOptions,
  jsonOf,
  rateLimited,
  recipientBusy,
  rejected,
  unknown,
  urlBelow,
} from '../transport/http-provider.ts'
import { escapeSlack } from './escape.ts'

const usualUrl = 'https://slack.com'
/** Longer texts are cut by Slack: https://docs.slack.dev/reference/methods/chat.postMessage */
const textMax = 40_000
const slackChannel = /^[#@]?[A-Za-z0-9._-]{1,100}$/

/** Errors of the recipient's channel. A webhook's channel is the account's own, and so is the fault. */
const deadChannels: ReadonlySet<string> = new Set([
  'channel_not_found',
  'is_archived',
  'channel_is_archived',
  'user_not_found',
  'users_not_found',
  'not_in_channel',
  'cannot_dm_bot',
])
/** Errors of the message that any account would get. All other errors belong to the account or to Slack. */
const messageFaults: ReadonlySet<string> = new Set([
  'no_text',
  'msg_too_long',
  'msg_blocks_too_long',
  'missing_text_or_fallback_or_attachments',
  'invalid_payload',
  'invalid_blocks',
  'invalid_blocks_format',
  'invalid_attachments',
  'too_many_attachments',
  'too_many_contact_cards',
  'attachment_payload_limit_exceeded',
  'markdown_text_conflict',
  'cannot_reply_to_message',
  'invalid_metadata_format',
  'invalid_metadata_schema',
  'metadata_too_large',
  'invalid_arguments',
  'invalid_arg_name',
  'invalid_array_arg',
  'invalid_charset',
  'invalid_form_data',
  'invalid_json',
  'json_not_object',
])
/** Errors of a channel's rule about posting: another account may post there, and this account may post elsewhere. */
const restricted = /^restricted_action/
/**
 * Errors after which the message may have been posted: “It's possible some aspect of the operation succeeded before
 * the error was raised.”
 */
const outcomeUnknown: ReadonlySet<string> = new Set(['fatal_error', 'internal_error'])
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
  const text = content.mrkdwn ?? escapeSlack(content.text ?? content.title ?? content.subject ?? '')
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
    url: urlBelow(account.url ?? usualUrl, '/api/chat.postMessage'),
    headers: { ...headers, authorization: `Bearer ${account.secret}` },
    body: JSON.stringify({ channel: to.slackChannel, text }),
  }
}

function judge(answer: HttpAnswer, account: Account): SendResult {
  const { status, text } = answer
  if (status === 429) return rateLimited(answer)
  if (isWebhook(account)) {
    const reason = text.trim()
    if (status === 200) return { outcome: 'delivered', detail: reason.slice(0, 20) }
    if (reason === 'fatal_error') return unknown(answer)
    if (status >= 500) return failed(answer)
    // A webhook's address is the account: where something is gone (no_service, no_team, channel_is_archived), the
    // account is gone.
    return messageFaults.has(reason) || status === 413 ? rejected(answer) : failed(answer)
  }
  const { ok, ts, error = '' } = jsonOf<{ ok: boolean; ts: string; error: string }>(answer)
  if (ok === true) return { outcome: 'delivered', ...(ts === undefined ? {} : { providerMessageId: ts }) }
  if (error === 'fatal_error') return unknown(answer)
  if (status >= 500) return failed(answer)
  // An answer without JSON comes from something in between, or was cut.
  if (error === '') return status === 200 ? unknown(answer) : failed(answer)
  return judgeWord(answer, error)
}

function judgeWord(answer: HttpAnswer, word: string): SendResult {
  if (tooFast.has(word)) return rateLimited(answer)
  if (outcomeUnknown.has(word)) return unknown(answer)
  if (deadChannels.has(word)) return rejected(answer, true)
  if (messageFaults.has(word)) return rejected(answer)
  return restricted.test(word) ? recipientBusy(answer) : failed(answer)
}

/**
 * Messages of a bot over Telegram's Bot API. The token is part of the address, so no address is ever put into a
 * detail. Sources: https://core.telegram.org/bots/api#sendmessage,
 * https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
 */
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
import { ChatPace } from '../transport/chat-pace.ts'
import type { HttpAnswer } from '../transport/http-call.ts'
import {
  type Composed,
  createHttpProvider,
  failed,
  type HttpProviderOptions,
  jsonOf,
  rateLimited,
  rejected,
  unknown,
  urlBelow,
} from '../transport/http-provider.ts'

interface TelegramAnswer {
  readonly ok: boolean
  readonly result: { readonly message_id: number }
  readonly description: string
  readonly parameters: { readonly retry_after?: number; readonly migrate_to_chat_id?: number }
}

const usualUrl = 'https://api.telegram.org'
const textMax = 4_096
const botToken = /^\d{1,20}:[A-Za-z0-9_-]{20,100}$/
/** A numeric id, or the public name of a channel. */
const chatId = /^(?:-?\d{1,20}|@[A-Za-z0-9_]{4,64})$/
/** Descriptions of chats that can no longer be written to, besides 403. */
const deadChat =
  /chat not found|user is deactivated|group chat was upgraded|PEER_ID_INVALID|chat_id is empty/i

export interface TelegramOptions extends HttpProviderOptions {
  /** Measures the rate of messages to each chat. @defaultValue the machine's clock */
  readonly clock?: Pick<Clock, 'now'>
}

export function createTelegramProvider(options: TelegramOptions = {}): Provider {
  const clock = options.clock ?? { now: () => Date.now() }
  const pace = new ChatPace()
  const provider = createHttpProvider(
    { name: 'telegram', channels: ['telegram'], idempotent: false, compose, judge, check },
    options,
  )
  return {
    ...provider,
    async send(message, account, signal, onWritten) {
      const chat = `${account.id} ${message.to.telegramChatId}`
      pace.wrote(chat, clock.now())
      const result = await provider.send(message, account, signal, onWritten)
      const isOfChat = result.outcome === 'rate_limited' && pace.isOver(chat, clock.now())
      return isOfChat ? { ...result, endpoint: `telegram:${message.to.telegramChatId}` } : result
    },
  }
}

function check(account: Account): void {
  if (!botToken.test(account.secret ?? '')) throw new Error('a bot token (secret) is expected')
}

function compose(message: Message, account: Account): Composed | SendResult {
  const chat = message.to.telegramChatId ?? ''
  if (!chatId.test(chat))
    return { outcome: 'rejected', invalidAddress: true, detail: 'the chat is neither a number nor a @name' }
  const { content } = message
  const text = content.text ?? content.title ?? content.subject ?? ''
  if (text === '' || text.length > textMax)
    return {
      outcome: 'rejected',
      invalidAddress: false,
      detail: `the text has ${text.length} of 1 to ${textMax} letters`,
    }
  return {
    url: urlBelow(account.url ?? usualUrl, `/bot${account.secret}/sendMessage`),
    headers: { 'content-type': 'application/json', 'x-notification-id': message.id },
    body: JSON.stringify({ chat_id: chat, text }),
  }
}

function judge(answer: HttpAnswer): SendResult {
  const { status } = answer
  const { ok, result, description = '', parameters } = jsonOf<TelegramAnswer>(answer)
  if (status === 200 && ok === true) {
    const id = result?.message_id
    return { outcome: 'delivered', ...(id === undefined ? {} : { providerMessageId: String(id) }) }
  }
  if (status === 429) {
    const seconds = parameters?.retry_after
    return rateLimited(answer, seconds === undefined ? answer.headers['retry-after'] : String(seconds))
  }
  // An answer without `ok: false` does not come from Telegram, but from something in between, or it was cut.
  if (ok !== false) return status === 200 ? unknown(answer) : failed(answer)
  // Telegram answers 401 and 404 to a token that is wrong or withdrawn.
  if (status === 401 || status === 404 || status >= 500) return failed(answer)
  // 403: the recipient has blocked the bot, or the bot was removed from the group.
  return rejected(answer, status === 403 || deadChat.test(description))
}

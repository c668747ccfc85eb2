/** Emulates Telegram's `POST /bot<token>/sendMessage`; the number before the token's colon names the account. */
import { type Emulator, json, jsonBody } from '../emulator.ts'

const refusal = (status: number, description: string, parameters?: object) =>
  json(status, {
    ok: false,
    error_code: status,
    description,
    ...(parameters === undefined ? {} : { parameters }),
  })

export const telegram: Emulator = {
  name: 'telegram',
  read(request) {
    const [, bot, method] = /^\/bot(\d+):[^/]+\/(\w+)$/.exec(request.path) ?? []
    if (bot === undefined) return undefined
    if (method !== 'sendMessage') return refusal(404, 'Not Found')
    const body = jsonBody<{ chat_id: string | number; text: string }>(request)
    if (body?.chat_id === undefined) return refusal(400, 'Bad Request: chat_id is empty')
    if (!body.text) return refusal(400, 'Bad Request: message text is empty')
    const chat = String(body.chat_id)
    return {
      isSend: true,
      account: bot,
      message: {
        id: String(request.headers['x-notification-id'] ?? ''),
        tenant: '',
        channel: 'telegram',
        to: { id: chat, telegramChatId: chat },
      },
    }
  },
  tell({ fate, send, retryAfter, number, now }) {
    switch (fate) {
      case 'deliver':
        return json(200, {
          ok: true,
          result: {
            message_id: number,
            date: Math.floor(now / 1_000),
            chat: { id: send.message.to.telegramChatId },
          },
        })
      case 'rate_limit':
        return refusal(
          429,
          `Too Many Requests: retry after ${retryAfter}`,
          /^\d+$/.test(retryAfter) ? { retry_after: Number(retryAfter) } : undefined,
        )
      case 'fail':
        return refusal(502, 'Bad Gateway')
      case 'reject':
        return refusal(400, 'Bad Request: message is too long')
      case 'reject_address':
        return refusal(403, 'Forbidden: bot was blocked by the user')
      case 'suspend':
        return refusal(401, 'Unauthorized')
    }
  },
}

/**
 * Emulates Slack's `POST /api/chat.postMessage`, where the bearer token names the account, and its incoming webhooks
 * `POST /services/<team>/<app>/<key>`, where the key names it.
 */
import {
  bearerOf,
  type Emulator,
  type EmulatorAnswer,
  json,
  jsonBody,
  retryAfterHeader,
  type SandboxRequest,
  type Telling,
} from '../emulator.ts'

const wordOf = {
  fail: 'internal_error',
  reject: 'invalid_blocks',
  reject_address: 'channel_not_found',
  suspend: 'account_inactive',
} as const

export const slack: Emulator = {
  name: 'slack',
  read(request) {
    if (request.path !== '/api/chat.postMessage') return undefined
    const account = bearerOf(request)
    if (account === undefined) return json(200, { ok: false, error: 'not_authed' })
    const body = jsonBody<{ channel: string; text: string }>(request)
    if (!body?.channel) return json(200, { ok: false, error: 'channel_not_found' })
    if (!body.text) return json(200, { ok: false, error: 'no_text' })
    return sendOf(request, account, body.channel)
  },
  tell({ fate, send, retryAfter, number, now }): EmulatorAnswer {
    if (fate === 'rate_limit')
      return json(429, { ok: false, error: 'ratelimited' }, retryAfterHeader(retryAfter))
    if (fate === 'deliver')
      return json(200, {
        ok: true,
        channel: send.message.to.slackChannel,
        ts: `${Math.floor(now / 1_000)}.${number}`,
      })
    return json(fate === 'fail' ? 503 : 200, { ok: false, error: wordOf[fate] })
  },
}

export const slackWebhook: Emulator = {
  name: 'slack-webhook',
  read(request) {
    const key = /^\/services\/[^/]+\/[^/]+\/([^/]+)$/.exec(request.path)?.[1]
    if (key === undefined) return undefined
    const body = jsonBody<{ text: string }>(request)
    return body?.text ? sendOf(request, key, '') : { status: 400, body: 'no_text' }
  },
  tell: ({ fate, retryAfter }: Telling): EmulatorAnswer => {
    if (fate === 'deliver') return { status: 200, body: 'ok' }
    if (fate === 'rate_limit')
      return { status: 429, headers: retryAfterHeader(retryAfter), body: 'rate_limited' }
    // A webhook has no recipient's address that could be wrong: its only address is the account's.
    const status = { fail: 500, reject: 400, reject_address: 400, suspend: 404 }[fate]
    const body = {
      fail: 'rollup_error',
      reject: 'invalid_payload',
      reject_address: 'invalid_payload',
      suspend: 'no_service',
    }[fate]
    return { status, body }
  },
}

function sendOf(request: SandboxRequest, account: string, channel: string) {
  return {
    isSend: true,
    account,
    message: {
      id: String(request.headers['x-notification-id'] ?? ''),
      tenant: '',
      channel: 'slack',
      to: { id: channel, slackChannel: channel },
    },
  } as const
}

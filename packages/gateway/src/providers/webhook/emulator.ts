/**
 * Emulates a receiver of Sluice's own webhooks: `POST /hook/<account>`. It accepts any request that names its
 * notification (Standard Webhooks' `webhook-id`); verifying signatures is the receiver's business and is not done
 * here.
 */
import type { Channel } from '../../model.ts'
import { type Emulator, json, jsonBody, retryAfterHeader, type Told } from '../emulator.ts'

const statusOf: Readonly<Record<Told, number>> = {
  deliver: 200,
  rate_limit: 429,
  fail: 503,
  reject: 422,
  reject_address: 410,
  suspend: 503,
}

export const webhook: Emulator = {
  name: 'webhook',
  read(request) {
    const account = /^\/hook\/([^/]+)$/.exec(request.path)?.[1]
    if (account === undefined) return undefined
    const body = jsonBody<{ tenant: string; channel: Channel; recipient: string }>(request)
    const id = request.headers['webhook-id']
    if (request.method !== 'POST' || body === undefined || typeof id !== 'string')
      return json(400, { error: 'a POST with webhook-id and a JSON object is expected' })
    return {
      isSend: true,
      account,
      message: {
        id,
        tenant: body.tenant ?? '',
        channel: body.channel ?? 'webhook',
        to: { id: body.recipient ?? '' },
      },
    }
  },
  tell: ({ fate, retryAfter }) =>
    json(
      statusOf[fate],
      { ok: fate === 'deliver' },
      fate === 'rate_limit' ? retryAfterHeader(retryAfter) : {},
    ),
}

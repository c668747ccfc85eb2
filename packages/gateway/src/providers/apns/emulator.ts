/**
 * Emulates APNs: `POST /3/device/<token>` over HTTP/2. The key id in the bearer token names the account; the token's
 * age is checked, and its signature where the key is the sandbox's own (example-keys.ts).
 */
import { apnsExample } from '../../sandbox/example-keys.ts'
import { readJwt } from '../emulated-jwt.ts'
import {
  type Emulator,
  type EmulatorAnswer,
  json,
  jsonBody,
  retryAfterHeader,
  type SandboxRequest,
} from '../emulator.ts'

const refusal = (status: number, reason: string, extra: object = {}): EmulatorAnswer =>
  json(status, { reason, ...extra })

const required = ['apns-topic', 'apns-push-type'] as const
/** Age above which a token is expired, Apple's hour, s. */
const ageMaxS = 3_600

export const apns: Emulator = {
  name: 'apns',
  read(request) {
    const device = /^\/3\/device\/(.*)$/.exec(request.path)?.[1]
    if (device === undefined) return undefined
    if (!request.http2) return { status: 505, body: 'HTTP/2 is expected' }
    if (request.method !== 'POST') return refusal(405, 'MethodNotAllowed')
    const account = accountOf(request)
    if (typeof account !== 'string') return account
    for (const name of required)
      if (!request.headers[name])
        return refusal(400, name === 'apns-topic' ? 'MissingTopic' : 'InvalidPushType')
    if (!/^[0-9a-fA-F]+$/.test(device)) return refusal(400, 'BadDeviceToken')
    if (request.body.length > 4_096) return refusal(413, 'PayloadTooLarge')
    const payload = jsonBody<{ aps: object; notificationId: string }>(request)
    if (payload?.aps === undefined) return refusal(400, 'PayloadEmpty')
    return {
      isSend: true,
      account,
      message: {
        id: payload.notificationId ?? '',
        tenant: '',
        channel: 'push',
        to: { id: device, pushToken: device },
      },
    }
  },
  tell({ fate, send, retryAfter, number, now }) {
    switch (fate) {
      case 'deliver':
        return { status: 200, headers: { 'apns-unique-id': `sandbox-${number}` } }
      case 'rate_limit':
        return json(429, { reason: 'TooManyProviderTokenUpdates' }, retryAfterHeader(retryAfter))
      case 'fail':
        return refusal(503, 'ServiceUnavailable')
      case 'reject':
        return refusal(400, 'BadCollapseId')
      case 'reject_address':
        // Some devices were never registered, others are no longer registered.
        return send.message.to.pushToken?.endsWith('0') === true
          ? refusal(400, 'BadDeviceToken')
          : refusal(410, 'Unregistered', { timestamp: Math.floor(now) })
      case 'suspend':
        return refusal(403, 'Forbidden')
    }
  },
}

function accountOf({ headers, now }: SandboxRequest): string | EmulatorAnswer {
  const text = /^bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1]
  if (text === undefined) return refusal(403, 'MissingProviderToken')
  const jwt = readJwt(text)
  const kid = jwt?.header.kid
  const { iss, iat } = jwt?.claims ?? {}
  if (
    jwt?.header.alg !== 'ES256' ||
    typeof kid !== 'string' ||
    typeof iss !== 'string' ||
    typeof iat !== 'number'
  )
    return refusal(403, 'InvalidProviderToken')
  if (kid === apnsExample.keyId && !jwt.isSignedBy(apnsExample.publicKey))
    return refusal(403, 'InvalidProviderToken')
  const ageS = now / 1_000 - iat
  return ageS > ageMaxS || ageS < -60 ? refusal(403, 'ExpiredProviderToken') : kid
}

/**
 * Emulates a push service (RFC 8030): `POST /push/<subscription>`. The key of VAPID names the account, and its token
 * is always verified. Subscriptions whose name begins with `rfc8291` belong to the browser of that RFC
 * (example-keys.ts): messages to them are decrypted, by code that shares nothing with the encryption.
 */
import { createDecipheriv, createHmac, createPublicKey } from 'node:crypto'
import { webPushExample } from '../../sandbox/example-keys.ts'
import { readJwt } from '../emulated-jwt.ts'
import {
  type Emulator,
  type EmulatorAnswer,
  json,
  retryAfterHeader,
  type SandboxRequest,
} from '../emulator.ts'

const refusal = (status: number, message: string, headers = {}): EmulatorAnswer =>
  json(status, { code: status, message }, headers)

export const webpush: Emulator = {
  name: 'webpush',
  read(request) {
    const name = /^\/push\/([^/]+)$/.exec(request.path)?.[1]
    if (name === undefined) return undefined
    const account = accountOf(request)
    if (account === undefined) return refusal(401, 'the VAPID token does not hold')
    const { ttl, 'content-encoding': encoding } = request.headers
    if (!/^\d+$/.test(String(ttl))) return refusal(400, 'TTL is missing')
    if (encoding !== 'aes128gcm') return refusal(400, 'aes128gcm is expected')
    if (request.body.length > 4_096) return refusal(413, 'the payload is too large')
    const id = name.startsWith('rfc8291') ? idIn(request.body) : ''
    if (id === undefined) return refusal(400, 'the payload cannot be decrypted')
    return {
      isSend: true,
      account,
      message: { id, tenant: '', channel: 'push', to: { id: name, pushToken: name } },
    }
  },
  tell({ fate, retryAfter, number }) {
    switch (fate) {
      case 'deliver':
        return { status: 201, headers: { location: `/message/${number}` } }
      case 'rate_limit':
        return refusal(429, 'too many requests', retryAfterHeader(retryAfter))
      case 'fail':
        return refusal(503, 'try again later')
      case 'reject':
        return refusal(413, 'the payload is too large')
      case 'reject_address':
        return refusal(410, 'the subscription has expired')
      case 'suspend':
        return refusal(403, 'not allowed')
    }
  },
}

/** Reads the public key, where the token is signed with it, for this service, and expires within a day. */
function accountOf({ headers, origin, now }: SandboxRequest): string | undefined {
  const [, token = '', key = ''] = /^vapid t=([^,\s]+), ?k=([\w-]+)$/.exec(headers.authorization ?? '') ?? []
  const jwt = readJwt(token)
  const point = Buffer.from(key, 'base64url')
  if (jwt?.header.alg !== 'ES256' || point.length !== 65) return undefined
  const part = (from: number): string => point.subarray(from, from + 32).toString('base64url')
  const signer = createPublicKey({
    format: 'jwk',
    key: { kty: 'EC', crv: 'P-256', x: part(1), y: part(33) },
  })
  const { aud, exp, sub } = jwt.claims
  const leftMs = Number(exp) * 1_000 - now
  const holds = aud === origin && leftMs > 0 && leftMs <= 86_400_000 && /^(mailto:|https:)/.test(String(sub))
  return holds && jwt.isSignedBy(signer) ? key : undefined
}

function idIn(body: Buffer): string | undefined {
  try {
    const payload = JSON.parse(decrypt(body).toString('utf8')) as { notificationId?: string }
    return payload.notificationId ?? ''
  } catch {
    return undefined
  }
}

/** Decrypts a message for the browser of RFC 8291. Throws where it was encrypted for another one, or was changed. */
export function decrypt(body: Buffer): Buffer {
  const { browser, auth } = webPushExample
  const salt = body.subarray(0, 16)
  const keyEnd = 21 + body.readUInt8(20)
  const sender = body.subarray(21, keyEnd)
  const record = body.subarray(keyEnd)
  const hmac = (key: Buffer, ...parts: readonly (Buffer | string)[]): Buffer => {
    const mac = createHmac('sha256', key)
    for (const part of parts) mac.update(part)
    return mac.digest()
  }
  // HKDF with one block is two HMACs; the 1 is the block's number.
  const one = Buffer.from([1])
  const agreed = hmac(Buffer.from(auth, 'base64url'), browser.computeSecret(sender))
  const shared = hmac(agreed, 'WebPush: info\0', browser.getPublicKey(), sender, one)
  const mixed = hmac(salt, shared)
  const key = hmac(mixed, 'Content-Encoding: aes128gcm\0', one).subarray(0, 16)
  const nonce = hmac(mixed, 'Content-Encoding: nonce\0', one).subarray(0, 12)
  const decipher = createDecipheriv('aes-128-gcm', key, nonce)
  decipher.setAuthTag(record.subarray(-16))
  const plain = Buffer.concat([decipher.update(record.subarray(0, -16)), decipher.final()])
  return plain.subarray(0, plain.lastIndexOf(2))
}

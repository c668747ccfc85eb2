/**
 * Signatures by Standard Webhooks (github.com/standard-webhooks/standard-webhooks, spec 1.0): HMAC-SHA256 over
 * `id.timestamp.body` under a secret `whsec_<base64>`. Pure but for the hash itself.
 */
import { createHmac } from 'node:crypto'
import { SluiceError } from '../../errors.ts'

const prefix = 'whsec_'
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/

/** Throws INVALID_CONFIG where the secret is not base64; never shows it. */
export function parseSecret(secret: string): Buffer {
  const encoded = secret.startsWith(prefix) ? secret.slice(prefix.length) : secret
  if (encoded === '' || !base64.test(encoded)) {
    throw new SluiceError(
      'INVALID_CONFIG',
      'the secret of a webhook account must be whsec_ and a key in base64',
    )
  }
  return Buffer.from(encoded, 'base64')
}

/** @param timestamp Unix time, seconds */
export function sign(key: Buffer, id: string, timestamp: number, body: string): string {
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`
}

/**
 * Encrypts a payload for one browser, so that the push service between cannot read it (RFC 8291): a key is agreed
 * from the browser's public key and its secret, and encrypts one record of aes128gcm (RFC 8188).
 */
import { createCipheriv, createECDH, type ECDH, hkdfSync, randomBytes } from 'node:crypto'

export interface SubscriptionKeys {
  /** The browser's public key: an uncompressed point of P-256, 65 bytes. */
  readonly p256dh: Buffer
  /** The browser's secret, 16 bytes. */
  readonly auth: Buffer
}

/** Random values, drawn anew for each message; set by tests alone. */
export interface Drawn {
  readonly pair: ECDH
  readonly salt: Buffer
}

/** Bytes of a record, the size that services accept at least (RFC 8030, 7.2): header, text, delimiter and tag. */
const recordBytes = 4_096
const headerBytes = 16 + 4 + 1 + 65
/** Most bytes of the plaintext. */
export const plainBytesMax = recordBytes - headerBytes - 1 - 16
const lastRecord = Buffer.from([2])

/** Throws where `p256dh` is not a point of the curve. */
export function encrypt(plain: Buffer, { p256dh, auth }: SubscriptionKeys, drawn: Drawn = draw()): Buffer {
  const { pair, salt } = drawn
  const own = pair.getPublicKey()
  const agreed = pair.computeSecret(p256dh)
  const about = Buffer.concat([Buffer.from('WebPush: info\0'), p256dh, own])
  const shared = derive(agreed, auth, about, 32)
  const key = derive(shared, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16)
  const nonce = derive(shared, salt, Buffer.from('Content-Encoding: nonce\0'), 12)
  const cipher = createCipheriv('aes-128-gcm', key, nonce)
  const size = Buffer.alloc(4)
  size.writeUInt32BE(recordBytes)
  return Buffer.concat([
    salt,
    size,
    Buffer.from([own.length]),
    own,
    cipher.update(Buffer.concat([plain, lastRecord])),
    cipher.final(),
    cipher.getAuthTag(),
  ])
}

function draw(): Drawn {
  const pair = createECDH('prime256v1')
  pair.generateKeys()
  return { pair, salt: randomBytes(16) }
}

function derive(secret: Buffer, salt: Buffer, info: Buffer, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, salt, info, bytes))
}

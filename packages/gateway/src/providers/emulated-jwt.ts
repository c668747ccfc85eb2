/**
 * JSON Web Tokens as the other side of a call sees them: read, and held against a key where it is known. Written
 * without the library that makes them, so that the two must agree.
 */
import { type KeyObject, verify } from 'node:crypto'

export interface Jwt {
  readonly header: Readonly<Record<string, unknown>>
  readonly claims: Readonly<Record<string, unknown>>
  isSignedBy(key: KeyObject): boolean
}

/** Undefined where it is none. */
export function readJwt(text: string): Jwt | undefined {
  const [head, body, signature, ...rest] = text.split('.')
  if (head === undefined || body === undefined || signature === undefined || rest.length > 0) return undefined
  const header = objectIn(head)
  const claims = objectIn(body)
  if (header === undefined || claims === undefined) return undefined
  return {
    header,
    claims,
    isSignedBy(key) {
      const signed = Buffer.from(`${head}.${body}`)
      const proof = Buffer.from(signature, 'base64url')
      // ES256 writes its two numbers side by side; for RS256 the option means nothing.
      return verify('sha256', signed, { key, dsaEncoding: 'ieee-p1363' }, proof)
    },
  }
}

function objectIn(part: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString('utf8'))
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

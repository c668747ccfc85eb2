/**
 * Reads and verifies JSON Web Tokens for the emulators. It does not use the library that the adapters sign with, so
 * the two implementations check each other.
 */
import { type KeyObject, verify } from 'node:crypto'

export interface Jwt {
  readonly header: Readonly<Record<string, unknown>>
  readonly claims: Readonly<Record<string, unknown>>
  isSignedBy(key: KeyObject): boolean
}

/** Decodes a token without verifying it; undefined where the text is not a token. */
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
      // ES256 writes its two numbers side by side; RS256 ignores the option.
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

/**
 * Verifies tokens (JWT, RFC 7519) by jose. Algorithms, issuer, audience and the claim `exp` are always checked, each
 * key is used for its one algorithm only, and the time is the clock port's. An error names the failed check in fixed
 * words and repeats nothing of the token itself.
 */
import type { KeyObject } from 'node:crypto'
import {
  type CryptoKey,
  decodeProtectedHeader,
  errors,
  type JWSHeaderParameters,
  type JWTPayload,
  type JWTVerifyOptions,
  jwtVerify,
} from 'jose'
import { SluiceError } from '../../errors.ts'
import type { Claims, Tokens } from '../../ports/tokens.ts'
import type { Clock } from '../../ports.ts'
import { createKeySet, type KeySetOptions } from './key-set.ts'

export type TokenKeys =
  | { readonly kind: 'secrets'; readonly secrets: readonly string[] }
  | { readonly kind: 'public'; readonly keys: readonly PublicKey[] }
  | { readonly kind: 'jwks'; readonly url: string }

interface PublicKey {
  readonly algorithm: string
  readonly key: KeyObject
}

export interface TokensOptions {
  /** Keys; several while they are rotated. Each is tried. */
  readonly keys: TokenKeys
  readonly issuer: string
  readonly audience: string
  readonly algorithms: readonly string[]
  readonly clock: Clock
  readonly keySet?: Omit<KeySetOptions, 'url' | 'clock'>
}

/**
 * How far the issuer's clock may be ahead, s. It applies to tokens that have just been made; an expired token is
 * refused at once, because a WebSocket is closed at that instant too.
 */
const clockToleranceS = 5

type Key = Uint8Array | KeyObject | CryptoKey

export function createTokens(options: TokensOptions): Tokens {
  const { keys, issuer, audience, algorithms, clock } = options
  const keySet = keys.kind === 'jwks' ? createKeySet({ url: keys.url, clock, ...options.keySet }) : undefined
  const fixed = fixedKeys(keys)

  async function candidates(token: string): Promise<readonly Key[]> {
    const header = headerOf(token)
    if (!algorithms.includes(header.alg!)) throw new errors.JOSEAlgNotAllowed()
    if (keySet !== undefined) return keySet.keysFor(header)
    return fixed.filter(({ algorithm }) => algorithm === header.alg).map(({ key }) => key)
  }

  async function verifyBy(key: Key, token: string): Promise<JWTPayload> {
    const now = clock.now() + (clock.aheadMs?.() ?? 0)
    const checks: JWTVerifyOptions = {
      algorithms: [...algorithms],
      issuer,
      audience,
      requiredClaims: ['exp'],
      clockTolerance: clockToleranceS,
      currentDate: new Date(now),
    }
    const { payload } = await jwtVerify(token, key, checks)
    if (payload.exp! * 1_000 <= now) throw new errors.JWTExpired('ended', payload, 'exp', 'check_failed')
    return payload
  }

  /** Returns the payload by the first key that made the signature. */
  async function verifyByAny(token: string): Promise<JWTPayload> {
    let last: unknown = new errors.JWSSignatureVerificationFailed()
    for (const key of await candidates(token)) {
      try {
        return await verifyBy(key, token)
      } catch (error) {
        if (!isOfKey(error)) throw error
        last = error
      }
    }
    throw last
  }

  return {
    async verify(token) {
      try {
        return (await verifyByAny(token)) as Claims
      } catch (error) {
        throw refusal(error)
      }
    },
    close: () => keySet?.close(),
  }
}

function fixedKeys(keys: TokenKeys): readonly { readonly algorithm: string; readonly key: Key }[] {
  switch (keys.kind) {
    case 'secrets':
      return keys.secrets.map((secret) => ({ algorithm: 'HS256', key: new TextEncoder().encode(secret) }))
    case 'public':
      return keys.keys
    case 'jwks':
      return []
  }
}

function headerOf(token: string): JWSHeaderParameters {
  try {
    return decodeProtectedHeader(token)
  } catch (cause) {
    throw new errors.JWSInvalid('no header', { cause })
  }
}

/**
 * True when the signature is not this key's; or, where jose throws a TypeError, when a published key is too weak to
 * be used.
 */
function isOfKey(error: unknown): boolean {
  return error instanceof errors.JWSSignatureVerificationFailed || error instanceof TypeError
}

function refusal(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error
  return invalidToken(reasonOf(error), error)
}

function reasonOf(error: unknown): string {
  if (error instanceof errors.JWTExpired) return 'The token has expired.'
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, reason } = error
    if (claim === 'iss') return 'The token is from another issuer.'
    if (claim === 'aud') return 'The token is for another audience.'
    if (claim === 'nbf' && reason === 'check_failed') return 'The token is not valid yet.'
    if (claim === 'exp') return 'The token has no valid time at which it ends (exp).'
    return 'A claim of the token is not valid.'
  }
  if (error instanceof errors.JOSEAlgNotAllowed || error instanceof errors.JOSENotSupported)
    return 'The token is signed with an algorithm that is not allowed here.'
  if (isOfKey(error) || error instanceof errors.JWKSNoMatchingKey)
    return 'The token is not signed with a key that is known here.'
  return 'This is no valid token.'
}

function invalidToken(detail: string, cause: unknown): SluiceError {
  const challenge = `Bearer error="invalid_token", error_description="${detail}"`
  return new SluiceError('UNAUTHENTICATED', detail, { challenge, cause })
}

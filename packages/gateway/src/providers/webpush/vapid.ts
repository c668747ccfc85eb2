/**
 * VAPID, the sender's identification at a push service (RFC 8292): a token signed with the account's key for the
 * service's origin, and the public key beside it. One token serves an origin for half a day.
 */
import { createECDH } from 'node:crypto'
import { type CryptoKey, importJWK, SignJWT } from 'jose'
import type { Account, Clock } from '../../ports.ts'
import { textOption } from '../transport/http-provider.ts'

export interface Vapid {
  /** Answers the header `authorization`, at once where there is a token. Rejects where the key is invalid. */
  headerFor(account: Account, origin: string): string | Promise<string>
}

/** Life of a token; a service may refuse more than 24 h. */
const holdsMs = 12 * 3_600_000
const useMs = 6 * 3_600_000
/** Most origins with a token. Origins come with requests; the oldest token is forgotten first. */
const originsMax = 1_000

interface Pair {
  readonly key: Promise<CryptoKey>
  /** Public key in base64url. */
  readonly publicKey: string
}

export function createVapid(clock: Pick<Clock, 'now'>): Vapid {
  const pairs = new Map<string, Pair>()
  const made = new Map<string, { readonly at: number; readonly header: string }>()

  function pairOf(secret: string): Pair {
    let pair = pairs.get(secret)
    if (pair === undefined) {
      pair = parsePair(secret)
      pairs.set(secret, pair)
    }
    return pair
  }

  async function make(account: Account, origin: string, name: string): Promise<string> {
    const { key, publicKey } = pairOf(account.secret ?? '')
    const subject = textOption(account, 'subject')
    if (subject === undefined) throw new Error('a subject is expected')
    const at = clock.now()
    const token = await new SignJWT()
      .setAudience(origin)
      .setExpirationTime(Math.floor((at + holdsMs) / 1_000))
      .setSubject(subject)
      .setProtectedHeader({ typ: 'JWT', alg: 'ES256' })
      .sign(await key)
    const header = `vapid t=${token}, k=${publicKey}`
    made.delete(name)
    made.set(name, { at, header })
    if (made.size > originsMax) made.delete(made.keys().next().value ?? '')
    return header
  }

  return {
    headerFor(account, origin) {
      const name = JSON.stringify([account.secret, account.options.subject, origin])
      const current = made.get(name)
      const good = current !== undefined && clock.now() - current.at < useMs
      return good ? current.header : make(account, origin, name)
    },
  }
}

function parsePair(secret: string): Pair {
  const pair = createECDH('prime256v1')
  const bytes = Buffer.from(secret, 'base64url')
  try {
    if (bytes.length !== 32) throw new Error()
    pair.setPrivateKey(bytes)
  } catch {
    throw new Error('a private key of VAPID (32 bytes in base64url, secret) is expected')
  }
  const point = pair.getPublicKey()
  const part = (from: number): string => point.subarray(from, from + 32).toString('base64url')
  const jwk = { kty: 'EC', crv: 'P-256', x: part(1), y: part(33), d: bytes.toString('base64url') }
  return { key: importJWK(jwk, 'ES256') as Promise<CryptoKey>, publicKey: point.toString('base64url') }
}

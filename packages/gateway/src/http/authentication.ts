/**
 * Authenticates by a bearer token (RFC 6750): the token is verified behind a port, and here its claims become
 * an identity. A verified token is cached for a while, under its hash: verifying costs as much as the rest of a
 * request (measured: 25 µs of CPU for HS256, 95 µs for ES256, against 0.5 µs for the hash).
 */
import { hash } from 'node:crypto'
import { SluiceError } from '../errors.ts'
import type { Claims, Tokens } from '../ports/tokens.ts'
import type { Clock } from '../ports.ts'
import { type Authenticate, type Identity, isName, nameMax, type WithHeaders } from './identity.ts'
import { aheadOf } from './wall-time.ts'

export interface AuthenticationOptions {
  readonly tokens: Pick<Tokens, 'verify'>
  /** The names of the claims; `a.b` is also the `b` inside of `a`. */
  readonly claims: { readonly tenant: string; readonly module: string; readonly scope: string }
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
  /** A token is not verified again for this long; a withdrawn key works that long. @defaultValue 60_000 ms */
  readonly rememberedMs?: number
  /** Tokens that are cached at most; the least recently used is removed first. @defaultValue 10_000 */
  readonly rememberedMax?: number
}

interface Remembered {
  readonly identity: Identity
  readonly until: number
}

/** The last instant of a Date; a token may expire later. */
const lastInstantMs = 8.64e15

export function createAuthenticate(options: AuthenticationOptions): Authenticate {
  const { tokens, claims: names, clock, rememberedMs = 60_000, rememberedMax = 10_000 } = options
  /** In order of last use. */
  const remembered = new Map<string, Remembered>()

  async function verify(token: string, key: string): Promise<Identity> {
    const identity = identityOf(await tokens.verify(token), names, aheadOf(clock))
    const until = Math.min(clock.now() + rememberedMs, identity.expiresAtMs!)
    remembered.set(key, { identity, until })
    if (remembered.size > rememberedMax) remembered.delete(remembered.keys().next().value!)
    return identity
  }

  /** The tenant of a verified token only; others may name any tenant. */
  function tenantOf({ headers }: WithHeaders): string | undefined {
    const token = tokenIn(headers.authorization)
    return token === undefined ? undefined : remembered.get(keyOf(token))?.identity.tenant
  }

  const authenticate = ({ headers }: WithHeaders): Identity | Promise<Identity> => {
    const token = tokenOf(headers.authorization)
    const key = keyOf(token)
    const known = remembered.get(key)
    if (known !== undefined) {
      remembered.delete(key)
      if (clock.now() < known.until) {
        remembered.set(key, known)
        return known.identity
      }
    }
    return verify(token, key)
  }

  return Object.assign(authenticate, { tenantOf })
}

const keyOf = (token: string): string => hash('sha256', token, 'base64url')

const tokenIn = (header = ''): string | undefined => /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i.exec(header)?.[1]

function tokenOf(header: string | undefined): string {
  if (header === undefined || header === '')
    throw new SluiceError('UNAUTHENTICATED', 'Send a token: Authorization: Bearer …')
  const token = tokenIn(header)
  if (token === undefined) throw invalid('Authorization is not of the form: Bearer, a space, one token.')
  return token
}

/** Makes an identity of claims. A token's expiry is wall time, and is kept in the process's own time. */
function identityOf(claims: Claims, names: AuthenticationOptions['claims'], aheadMs: number): Identity {
  const { sub, exp } = claims
  return {
    tenant: nameOf(claims, names.tenant),
    module: nameOf(claims, names.module),
    scopes: readScopes(claimOf(claims, names.scope)),
    expiresAtMs: Math.min((exp as number) * 1_000 - aheadMs, lastInstantMs),
    ...(typeof sub === 'string' && sub !== '' ? { subject: sub } : {}),
  }
}

/** Finds a claim of that whole name, else inside of others, step by step. */
function claimOf(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  let value: unknown = claims
  for (const step of name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Claims)[step]
  }
  return value
}

function nameOf(claims: Claims, name: string): string {
  const value = claimOf(claims, name)
  if (value === undefined) throw invalid(`The token lacks the claim ${name}.`)
  if (isName(value)) return value
  throw invalid(`The claim ${name} of the token is not a text of 1 to ${nameMax} printable characters.`)
}

/** Reads scopes: words in a text (RFC 8693), or a list of texts. */
function readScopes(value: unknown): ReadonlySet<string> {
  const words = typeof value === 'string' ? value.split(' ') : Array.isArray(value) ? value : []
  return new Set(words.filter((word) => typeof word === 'string' && word !== ''))
}

function invalid(detail: string): SluiceError {
  const description = detail.replaceAll(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, '?')
  const challenge = `Bearer error="invalid_token", error_description="${description}"`
  return new SluiceError('UNAUTHENTICATED', detail, { challenge })
}

/**
 * Tokens made by hand, with nothing of the library that checks them: good ones, and ones that were tampered with.
 * Every algorithm has two issuers, one that is trusted and one that is not.
 */
import { createHmac, generateKeyPairSync, type KeyObject, sign as signBytes } from 'node:crypto'

export const issuer = 'https://issuer.example'
export const audience = 'sluice'
export const algorithms = ['HS256', 'RS256', 'ES256', 'EdDSA'] as const
export type Algorithm = (typeof algorithms)[number]

/** A secret, or a pair of keys. */
export interface Signer {
  readonly algorithm: Algorithm
  readonly key: KeyObject | string
  /** In PEM; of a secret the secret itself. */
  readonly publicKey: string
  readonly publicJwk: object
}

export function createSigner(algorithm: Algorithm, name = 'trusted'): Signer {
  if (algorithm === 'HS256') {
    const key = `${name}-secret-of-more-than-32-bytes-${name}`
    return { algorithm, key, publicKey: key, publicJwk: {} }
  }
  const pair = {
    RS256: () => generateKeyPairSync('rsa', { modulusLength: 2048 }),
    ES256: () => generateKeyPairSync('ec', { namedCurve: 'P-256' }),
    EdDSA: () => generateKeyPairSync('ed25519'),
  }[algorithm]()
  return {
    algorithm,
    key: pair.privateKey,
    publicKey: String(pair.publicKey.export({ type: 'spki', format: 'pem' })),
    publicJwk: pair.publicKey.export({ format: 'jwk' }),
  }
}

const base64url = (value: object | string): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')

function hmac(text: string, secret: string): string {
  return createHmac('sha256', secret).update(text).digest('base64url')
}

/** Signs whatever it is given. */
export function sign(signer: Signer, claims: object, header: object = {}): string {
  const text = `${base64url({ alg: signer.algorithm, typ: 'JWT', ...header })}.${base64url(claims)}`
  if (typeof signer.key === 'string') return `${text}.${hmac(text, signer.key)}`
  const bytes = Buffer.from(text)
  const signature =
    signer.algorithm === 'ES256'
      ? signBytes('sha256', bytes, { key: signer.key, dsaEncoding: 'ieee-p1363' })
      : signBytes(signer.algorithm === 'EdDSA' ? null : 'sha256', bytes, signer.key)
  return `${text}.${signature.toString('base64url')}`
}

export interface GoodClaims {
  readonly tenant?: string
  readonly module?: string
  readonly scope?: string | readonly string[]
  readonly [more: string]: unknown
}

/** All that a token needs, for an hour from `now`. */
export function claims({ tenant = 'acme', module = 'shop', ...more }: GoodClaims = {}, now = Date.now()) {
  const second = Math.floor(now / 1_000)
  return {
    iss: issuer,
    aud: audience,
    iat: second,
    exp: second + 3_600,
    tenant: { id: tenant },
    module: { id: module },
    ...more,
  }
}

export function tokenFor(signer: Signer, good: GoodClaims = {}): string {
  return sign(signer, claims(good))
}

export interface BadToken {
  readonly name: string
  /** The whole header; undefined: none. */
  readonly authorization: string | undefined
}

/** Everything that must not pass, for a gateway that trusts this signer alone. */
export function badTokens(signer: Signer): readonly BadToken[] {
  const good = claims()
  const { iss: _iss, ...noIssuer } = good
  const { aud: _aud, ...noAudience } = good
  const { exp: _exp, ...noEnd } = good
  const { tenant: _tenant, ...noTenant } = good
  const { module: _module, ...noModule } = good
  const now = good.iat
  const unsigned = (alg: string) => `${base64url({ alg })}.${base64url(good)}.`
  const [header, payload, signature] = sign(signer, good).split('.') as [string, string, string]
  const another = createSigner(signer.algorithm, 'foreign')
  const swapped = swappedText(signer)
  const signed = (claim: object, more: object = {}) => sign(signer, { ...good, ...claim }, more)
  const tokens: Readonly<Record<string, string>> = {
    'a token that is garbage': 'garbage',
    'three parts of garbage': 'a.b.c',
    'alg none': unsigned('none'),
    'alg None': unsigned('None'),
    'alg none with the signature of another': `${unsigned('none')}${signature}`,
    'no alg at all': `${base64url({ typ: 'JWT' })}.${payload}.${signature}`,
    'the public key taken for a secret': `${swapped}.${hmac(swapped, signer.publicKey)}`,
    'the public key without its last line break taken for a secret': `${swapped}.${hmac(swapped, signer.publicKey.trim())}`,
    'an empty secret': `${swapped}.${hmac(swapped, '')}`,
    'another key': sign(another, good),
    'another key that stands in the header': sign(another, good, { jwk: another.publicJwk }),
    'another key by an address in the header': sign(another, good, { jku: 'https://evil.example/jwks.json' }),
    'another key by the name of a file': sign(another, good, { kid: '../../../../dev/null' }),
    'an extension that must be understood': signed({}, { crit: ['x-new'], 'x-new': 1 }),
    'another issuer': signed({ iss: 'https://evil.example' }),
    'an issuer that begins like ours': signed({ iss: `${issuer}.evil.example` }),
    'no issuer': sign(signer, noIssuer),
    'another audience': signed({ aud: 'other' }),
    'a list of other audiences': signed({ aud: ['other', 'sluice2'] }),
    'no audience': sign(signer, noAudience),
    'expired an hour ago': signed({ exp: now - 3_600 }),
    'expired a second ago': signed({ exp: now - 1 }),
    'an end that is text': signed({ exp: String(now + 3_600) }),
    'no end': sign(signer, noEnd),
    'not valid yet': signed({ nbf: now + 600 }),
    'no tenant': sign(signer, noTenant),
    'a tenant that is empty': signed({ tenant: { id: '' } }),
    'a tenant that is a number': signed({ tenant: { id: 7 } }),
    'a tenant with a line break': signed({ tenant: { id: 'a\nb' } }),
    'a tenant with a NUL': signed({ tenant: { id: 'acme\u0000' } }),
    'a tenant that is too long': signed({ tenant: { id: 'a'.repeat(257) } }),
    'a tenant out of the prototype': sign(signer, { ...noTenant, tenant: {} }),
    'no module': sign(signer, noModule),
    'claims that are a list': sign(signer, [good]),
    'a payload that was changed': `${header}.${base64url({ ...good, scope: 'sluice:admin' })}.${signature}`,
    'a header that was changed': `${base64url({ alg: signer.algorithm, kid: '2' })}.${payload}.${signature}`,
    'a signature that was cut': `${header}.${payload}.${signature.slice(0, -4)}`,
    'no signature': `${header}.${payload}.`,
    'two tokens': `${header}.${payload}.${signature} ${header}.${payload}.${signature}`,
  }
  return [
    { name: 'no token', authorization: undefined },
    { name: 'no token after Bearer', authorization: 'Bearer' },
    { name: 'a password', authorization: `Basic ${base64url('admin:admin')}` },
    { name: 'a good token under another scheme', authorization: `Token ${sign(signer, good)}` },
    ...Object.entries(tokens).map(([name, token]) => ({ name, authorization: `Bearer ${token}` })),
  ]
}

/** The header of a token that says HS256, whatever its key is; where HS256 is right, it says RS256. */
function swappedText({ algorithm }: Signer): string {
  return `${base64url({ alg: algorithm === 'HS256' ? 'RS256' : 'HS256' })}.${base64url(claims())}`
}

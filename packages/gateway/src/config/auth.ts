/**
 * Reads `auth`, and checks that the keys, the algorithms, the issuer and the audience fit together. A token is
 * only as good as the weakest of these, so each is either configured or follows from the keys; none is left
 * open.
 */
import { createPublicKey, type KeyObject } from 'node:crypto'
import { isLoopback } from './address.ts'
import { type AuthDocument, type JwtAlgorithm, jwtKeyFields, jwtSecretBytesMin } from './auth-schema.ts'
import type { AuthConfig, JwtKeys, PublicKey } from './config.ts'
import { readTextFile, type Source } from './source.ts'

type JwtDocument = NonNullable<AuthDocument['jwt']>

const place = (...steps: readonly string[]) => ['auth', 'jwt', ...steps]

/** The least bits of an RSA key by NIST SP 800-131A; verifiers refuse shorter ones. */
const rsaBitsMin = 2_048

/** Reads `auth`. Undefined without keys, and where a mistake was noted. */
export function readAuth(written: AuthDocument | undefined, source: Source): AuthConfig | undefined {
  if (written === undefined) return undefined
  if (written.jwt === undefined) return source.fault(place(), 'is missing; expected keys for tokens')
  const { jwt, claims = {} } = written
  const keys = readKeys(jwt, source)
  if (jwt.issuer === undefined)
    source.fault(place('issuer'), 'is missing; expected what the claim iss of every token says')
  if (jwt.audience === undefined)
    source.fault(place('audience'), 'is missing; expected what the claim aud of every token names')
  if (keys === undefined || jwt.issuer === undefined || jwt.audience === undefined) return undefined
  const algorithms = readAlgorithms(jwt, keys, source)
  return {
    jwt: { keys, issuer: jwt.issuer, audience: jwt.audience, algorithms },
    claims: {
      tenant: claims.tenant ?? 'tenant.id',
      module: claims.module ?? 'module.id',
      scope: claims.scope ?? 'scope',
    },
  }
}

function readKeys(jwt: JwtDocument, source: Source): JwtKeys | undefined {
  const named = jwtKeyFields.filter((key) => jwt[key] !== undefined)
  if (named.length === 0)
    return source.fault(place(), 'names no key; expected one of secret, secretFile, publicKeyFile and jwks')
  if (named.length > 1)
    return source.fault(place(named[1]!), `stands beside ${named[0]}; one of them is expected`)
  if (jwt.publicKeyFile !== undefined) return readPublicKeys(jwt.publicKeyFile, source)
  if (jwt.jwks !== undefined) return readAddress(jwt.jwks, source)
  return readSecrets(jwt, source)
}

function readSecrets(jwt: JwtDocument, source: Source): JwtKeys | undefined {
  const text = source.secret(place('secret'), jwt.secret, jwt.secretFile)
  if (text === undefined) return undefined
  const secrets = jwt.secretFile === undefined ? [text] : text.split(/\s*\n\s*/)
  if (secrets.some((secret) => Buffer.byteLength(secret) < jwtSecretBytesMin)) {
    return source.fault(
      place(jwt.secretFile === undefined ? 'secret' : 'secretFile'),
      `expected a secret of at least ${jwtSecretBytesMin} bytes (RFC 7518, section 3.2); this one is shorter`,
    )
  }
  return { kind: 'secrets', secrets }
}

function readPublicKeys(named: string, source: Source): JwtKeys | undefined {
  const path = place('publicKeyFile')
  const file = source.resolve(path, named)
  const read = readTextFile(file)
  if (!read.ok) return source.fault(path, `names a file that ${read.message}`)
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(read.text))
    return source.fault(path, 'names a file with a private key in it; the gateway needs the public one alone')
  const blocks = read.text.match(/-----BEGIN ([A-Z ]+)-----[^-]+-----END \1-----/g) ?? []
  if (blocks.length === 0) return source.fault(path, 'names a file without a public key in PEM')
  const keys: PublicKey[] = []
  for (const block of blocks) {
    const key = publicKeyOf(block)
    const algorithm = key === undefined ? undefined : algorithmOf(key)
    if (key === undefined || algorithm === undefined) {
      return source.fault(
        path,
        `names a file with a key that is not used here; expected RSA of at least ${rsaBitsMin} bits, P-256 or Ed25519`,
      )
    }
    keys.push({ algorithm, key })
  }
  return { kind: 'public', file, keys }
}

function publicKeyOf(pem: string): KeyObject | undefined {
  try {
    return createPublicKey(pem)
  } catch {
    return undefined
  }
}

/** Finds the algorithm that a public key verifies. */
function algorithmOf(key: KeyObject): JwtAlgorithm | undefined {
  const { modulusLength = 0, namedCurve } = key.asymmetricKeyDetails ?? {}
  if (key.asymmetricKeyType === 'rsa') return modulusLength >= rsaBitsMin ? 'RS256' : undefined
  if (key.asymmetricKeyType === 'ec') return namedCurve === 'prime256v1' ? 'ES256' : undefined
  return key.asymmetricKeyType === 'ed25519' ? 'EdDSA' : undefined
}

/**
 * Reads the address of the keys. It must be https: over plain HTTP somebody on the network could send other
 * keys.
 */
function readAddress(text: string, source: Source): JwtKeys | undefined {
  const url = URL.parse(text)
  const trusted = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))
  if (trusted && url.username === '' && url.password === '') return { kind: 'jwks', url: text }
  return source.fault(place('jwks'), 'expected an https URL; http is for an issuer on this machine only')
}

function readAlgorithms(jwt: JwtDocument, keys: JwtKeys, source: Source): readonly JwtAlgorithm[] {
  const fitting = algorithmsFor(keys)
  const written = jwt.algorithms ?? fitting
  const foreign = written.find((name) => !fitting.includes(name))
  if (foreign !== undefined) {
    const named = { secrets: 'a secret', public: 'the keys of publicKeyFile', jwks: 'jwks' }[keys.kind]
    source.fault(place('algorithms'), `${foreign} does not go with ${named}; expected ${fitting.join(', ')}`)
  }
  return [...new Set(written)]
}

function algorithmsFor(keys: JwtKeys): readonly JwtAlgorithm[] {
  switch (keys.kind) {
    case 'secrets':
      return ['HS256']
    case 'public':
      return [...new Set(keys.keys.map(({ algorithm }) => algorithm))]
    case 'jwks':
      return ['RS256', 'ES256', 'EdDSA']
  }
}

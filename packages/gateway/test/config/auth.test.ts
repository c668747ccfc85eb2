import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import type { AuthConfig } from '../../src/config/config.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createSigner } from '../tokens.ts'
import { temporaryFolder } from './folder.ts'
import { type Refusal, testRefusals } from './refusal.ts'

const secret = 'canary-canary-canary-canary-canary'
const about = 'issuer: https://issuer.example, audience: sluice'
const rsa = createSigner('RS256').publicKey
const ec = createSigner('ES256').publicKey
const ed = createSigner('EdDSA').publicKey
const spki = (pair: { publicKey: { export(how: object): unknown } }): string =>
  String(pair.publicKey.export({ type: 'spki', format: 'pem' }))
const shortRsa = spki(generateKeyPairSync('rsa', { modulusLength: 1024 }))
const otherCurve = spki(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }))
const privateKey = String(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }))

function authOf(
  t: Parameters<typeof temporaryFolder>[0],
  files: Readonly<Record<string, string>>,
  env: Readonly<Record<string, string>> = {},
): AuthConfig {
  const { auth } = loadConfig({ env, cwd: temporaryFolder(t, files) })
  assert.ok(auth !== undefined)
  return auth
}

test('the keys of the contract are read to the letter', (t) => {
  const auth = authOf(t, {
    'sluice.yaml': `
http: { host: 0.0.0.0 }
auth:
  jwt: { secret: ${secret}, issuer: https://issuer.example, audience: sluice, algorithms: [HS256] }
  claims: { tenant: org, scope: scp }
`,
  })
  assert.deepEqual(auth, {
    jwt: {
      keys: { kind: 'secrets', secrets: [secret] },
      issuer: 'https://issuer.example',
      audience: 'sluice',
      algorithms: ['HS256'],
    },
    claims: { tenant: 'org', module: 'module.id', scope: 'scp' },
  })
})

test('variables alone suffice, and the keys decide the algorithm', (t) => {
  const env = {
    SLUICE_JWT_SECRET: secret,
    SLUICE_JWT_ISSUER: 'i',
    SLUICE_JWT_AUDIENCE: 'a',
    SLUICE_JWT_ALGORITHMS: 'HS256, HS256',
  }
  const { jwt } = authOf(t, {}, env)
  assert.deepEqual([jwt.issuer, jwt.audience, jwt.algorithms], ['i', 'a', ['HS256']])
  const { jwt: bySet } = authOf(
    t,
    {},
    {
      SLUICE_JWT_JWKS: 'https://i.example/jwks',
      SLUICE_JWT_ISSUER: 'i',
      SLUICE_JWT_AUDIENCE: 'a',
      SLUICE_JWT_ALGORITHMS: 'ES256 EdDSA',
    },
  )
  assert.deepEqual(bySet.algorithms, ['ES256', 'EdDSA'])
})

test('a file may hold several secrets or keys during rotation, and the algorithms follow from the keys', (t) => {
  const yaml = (key: string): Record<string, string> => ({
    'sluice.yaml': `auth: { jwt: { ${key}, ${about} } }`,
  })
  const secrets = authOf(t, { ...yaml('secretFile: s'), s: `${secret}-new\r\n  ${secret}-old\n\n` })
  assert.deepEqual(secrets.jwt.keys, { kind: 'secrets', secrets: [`${secret}-new`, `${secret}-old`] })
  assert.deepEqual(secrets.jwt.algorithms, ['HS256'])
  const keys = authOf(t, {
    ...yaml('publicKeyFile: k.pem'),
    'k.pem': `${rsa}\nof the year before:\n${ec}${ed}`,
  })
  assert.deepEqual(keys.jwt.algorithms, ['RS256', 'ES256', 'EdDSA'])
  const set = authOf(t, yaml('jwks: "http://127.0.0.1:9/jwks"'))
  assert.deepEqual(set.jwt.keys, { kind: 'jwks', url: 'http://127.0.0.1:9/jwks' })
  assert.deepEqual(set.jwt.algorithms, ['RS256', 'ES256', 'EdDSA'])
})

const pem = { 'k.pem': rsa }
const noUse =
  'names a file with a key that is not used here; expected RSA of at least 2048 bits, P-256 or Ed25519'

const refusals: readonly Refusal[] = [
  {
    name: 'keys without an issuer or an audience',
    yaml: `auth:\n  jwt: { secret: ${secret} }`,
    says: [
      'sluice.yaml:2: auth.jwt.issuer: is missing; expected what the claim iss of every token says',
      'sluice.yaml:2: auth.jwt.audience: is missing; expected what the claim aud of every token names',
    ],
  },
  {
    name: 'a secret in a variable, and nothing else',
    env: { SLUICE_JWT_SECRET: secret },
    says: [
      'auth.jwt.issuer: is missing; expected what the claim iss of every token says',
      'auth.jwt.audience: is missing; expected what the claim aud of every token names',
    ],
  },
  {
    name: 'an issuer without any key',
    env: { SLUICE_JWT_ISSUER: 'i', SLUICE_JWT_AUDIENCE: 'a' },
    says: ['auth.jwt: names no key; expected one of secret, secretFile, publicKeyFile and jwks'],
  },
  {
    name: 'claims without keys',
    yaml: 'auth: { claims: { tenant: org } }',
    says: ['sluice.yaml:1: auth.jwt: is missing; expected keys for tokens'],
  },
  {
    name: 'the algorithm none',
    yaml: `auth: { jwt: { secret: ${secret}, ${about}, algorithms: [HS256, none] } }`,
    says: [
      'sluice.yaml:1: auth.jwt.algorithms[1]: expected one of HS256, RS256, ES256, EdDSA; this is "none"',
    ],
  },
  {
    name: 'no algorithm',
    yaml: `auth: { jwt: { secret: ${secret}, ${about}, algorithms: [] } }`,
    says: ['sluice.yaml:1: auth.jwt.algorithms: expected a list of HS256, RS256, ES256, EdDSA; this is []'],
  },
  {
    name: 'an algorithm in a variable that does not exist',
    env: {
      SLUICE_JWT_SECRET: secret,
      SLUICE_JWT_ISSUER: 'i',
      SLUICE_JWT_AUDIENCE: 'a',
      SLUICE_JWT_ALGORITHMS: 'HS256,none',
    },
    says: ['SLUICE_JWT_ALGORITHMS: expected one of HS256, RS256, ES256, EdDSA; this is "none"'],
  },
  {
    name: 'HS256 with a public key, which everybody knows',
    yaml: `auth: { jwt: { publicKeyFile: k.pem, ${about}, algorithms: [RS256, HS256] } }`,
    files: pem,
    says: [
      'sluice.yaml:1: auth.jwt.algorithms: HS256 does not go with the keys of publicKeyFile; expected RS256',
    ],
  },
  {
    name: 'RS256 with a secret',
    yaml: `auth: { jwt: { secret: ${secret}, ${about}, algorithms: [RS256] } }`,
    says: ['sluice.yaml:1: auth.jwt.algorithms: RS256 does not go with a secret; expected HS256'],
  },
  {
    name: 'a secret that can be guessed',
    yaml: `auth: { jwt: { secret: canary-canary-canary-canary-can, ${about} } }`,
    says: [
      'sluice.yaml:1: auth.jwt.secret: expected a secret of at least 32 bytes (RFC 7518, section 3.2); this one is shorter',
    ],
  },
  {
    name: 'a second secret that can be guessed',
    yaml: `auth: { jwt: { secretFile: s, ${about} } }`,
    files: { s: `${secret}\ncanary` },
    says: [
      'sluice.yaml:1: auth.jwt.secretFile: expected a secret of at least 32 bytes (RFC 7518, section 3.2); this one is shorter',
    ],
  },
  {
    name: 'a secret that is no text',
    yaml: `auth: { jwt: { secret: [canary], ${about} } }`,
    says: ['sluice.yaml:1: auth.jwt.secret: expected a secret of at least 32 bytes'],
  },
  {
    name: 'a secret beside a public key',
    yaml: `auth: { jwt: { secret: ${secret}, publicKeyFile: k.pem, ${about} } }`,
    files: pem,
    says: ['sluice.yaml:1: auth.jwt.publicKeyFile: stands beside secret; one of them is expected'],
  },
  {
    name: 'keys over a line that anybody can change',
    yaml: `auth: { jwt: { jwks: "http://issuer.example/jwks", ${about} } }`,
    says: ['sluice.yaml:1: auth.jwt.jwks: expected an https URL; http is for an issuer on this machine only'],
  },
  {
    name: 'a file of keys that is not there',
    yaml: `auth: { jwt: { publicKeyFile: k.pem, ${about} } }`,
    says: ['sluice.yaml:1: auth.jwt.publicKeyFile: names a file that cannot be read (there is none)'],
  },
  {
    name: 'a private key',
    yaml: `auth: { jwt: { publicKeyFile: k.pem, ${about} } }`,
    files: { 'k.pem': privateKey },
    says: [
      'sluice.yaml:1: auth.jwt.publicKeyFile: names a file with a private key in it; the gateway needs the public one alone',
    ],
  },
  {
    name: 'a file of keys without one',
    yaml: `auth: { jwt: { publicKeyFile: k.pem, ${about} } }`,
    files: { 'k.pem': 'canary' },
    says: ['sluice.yaml:1: auth.jwt.publicKeyFile: names a file without a public key in PEM'],
  },
  ...Object.entries({ 'an RSA key of 1024 bits': shortRsa, 'a curve that is not used': otherCurve }).map(
    ([name, key]): Refusal => ({
      name,
      yaml: `auth: { jwt: { publicKeyFile: k.pem, ${about} } }`,
      files: { 'k.pem': rsa + key },
      says: [`sluice.yaml:1: auth.jwt.publicKeyFile: ${noUse}`],
    }),
  ),
  {
    name: 'a setting of tokens that is misspelt',
    yaml: `auth: { jwt: { secret: ${secret}, ${about}, algorithm: HS256 } }`,
    says: ['sluice.yaml:1: auth.jwt.algorithm: is not known here: did you mean "algorithms"?'],
  },
]

testRefusals(refusals)

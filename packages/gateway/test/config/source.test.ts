import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import type { Config } from '../../src/config/config.ts'
import { loadConfig } from '../../src/config/load.ts'
import { temporaryFolder } from './folder.ts'
import { signingKey } from './signing-key.ts'

test('secrets are read from files, relative to the file that names them', (t) => {
  const cwd = temporaryFolder(t, {
    'conf/sluice.yaml': `
unsubscribe: { secretFile: ./unsubscribe.txt }
pools:
  email:
    provider: smtp
    accounts:
      - id: a
        urlFile: secrets/smtp
        dkim: { domainName: example.com, keySelector: s1, privateKeyFile: secrets/dkim.pem }
  sms: { provider: webhook, accounts: [{ id: b, url: "https://sms.example.com/x", secretFile: secrets/hook }] }
`,
    'conf/unsubscribe.txt': 'sixteen-characters-and-more\n',
    'conf/secrets/smtp': 'smtps://user:pass@mail.example.com\n',
    'conf/secrets/dkim.pem': signingKey,
    'conf/secrets/hook': 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    'from-variable': 'another-secret-of-some-length',
  })
  const config = loadConfig({ path: 'conf/sluice.yaml', env: {}, cwd })
  assert.equal(config.unsubscribe.secret, 'sixteen-characters-and-more')
  const [email, sms] = config.pools
  assert.equal(email?.accounts[0]?.account.url, 'smtps://user:pass@mail.example.com')
  assert.deepEqual(email?.accounts[0]?.account.options.dkim, {
    domainName: 'example.com',
    keySelector: 's1',
    privateKey: signingKey.trim(),
  })
  assert.equal(sms?.accounts[0]?.account.secret, 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
  const other = loadConfig({ env: { SLUICE_UNSUBSCRIBE_SECRET_FILE: 'from-variable' }, cwd })
  assert.equal(other.unsubscribe.secret, 'another-secret-of-some-length')
})

const fileSecret = 'the-secret-of-the-file-in-32-bytes-or-more'
const ownSecret = 'the-secret-of-the-variable-in-32-bytes-or-more'
const jwtOf = (key: string): string => `auth: { jwt: { ${key}, issuer: i, audience: a } }`
const jwks = 'https://issuer.example/jwks.json'
const keys = ({ auth }: Config) => auth?.jwt.keys

interface OtherForm {
  readonly yaml: string
  readonly env: Readonly<Record<string, string>>
  readonly read: (config: Config) => unknown
  readonly expected: unknown
}

const otherForms: readonly OtherForm[] = [
  {
    yaml: jwtOf(`secret: ${fileSecret}`),
    env: { SLUICE_JWT_SECRET_FILE: 'own' },
    read: keys,
    expected: { kind: 'secrets', secrets: [ownSecret] },
  },
  {
    yaml: jwtOf('secretFile: missing'),
    env: { SLUICE_JWT_SECRET: ownSecret },
    read: keys,
    expected: { kind: 'secrets', secrets: [ownSecret] },
  },
  {
    yaml: jwtOf(`jwks: "${jwks}"`),
    env: { SLUICE_JWT_SECRET: ownSecret },
    read: keys,
    expected: { kind: 'secrets', secrets: [ownSecret] },
  },
  {
    yaml: jwtOf('publicKeyFile: missing'),
    env: { SLUICE_JWT_JWKS: jwks },
    read: keys,
    expected: { kind: 'jwks', url: jwks },
  },
  {
    yaml: jwtOf(`secret: ${fileSecret}`),
    env: { SLUICE_JWT_JWKS: jwks },
    read: keys,
    expected: { kind: 'jwks', url: jwks },
  },
  {
    yaml: jwtOf(`secret: ${fileSecret}`),
    env: { SLUICE_JWT_PUBLIC_KEY_FILE: 'public.pem' },
    read: (config) => keys(config)?.kind,
    expected: 'public',
  },
  {
    yaml: `unsubscribe: { secret: ${fileSecret} }`,
    env: { SLUICE_UNSUBSCRIBE_SECRET_FILE: 'own' },
    read: ({ unsubscribe }) => unsubscribe.secret,
    expected: ownSecret,
  },
  {
    yaml: 'unsubscribe: { secretFile: missing }',
    env: { SLUICE_UNSUBSCRIBE_SECRET: ownSecret },
    read: ({ unsubscribe }) => unsubscribe.secret,
    expected: ownSecret,
  },
  {
    yaml: 'store: "sqlite:./file.db"',
    env: { SLUICE_STORE_FILE: 'store' },
    read: ({ store }) => store.kind,
    expected: 'postgres',
  },
  {
    yaml: 'storeFile: missing',
    env: { SLUICE_STORE: 'postgres://localhost/variable' },
    read: ({ store }) => store.kind,
    expected: 'postgres',
  },
  {
    yaml: 'state: memory',
    env: { SLUICE_STATE_FILE: 'state' },
    read: ({ state }) => state.kind,
    expected: 'redis',
  },
  {
    yaml: 'stateFile: missing',
    env: { SLUICE_STATE: 'memory' },
    read: ({ state }) => state.kind,
    expected: 'memory',
  },
  {
    yaml: 'queue: embedded',
    env: { SLUICE_QUEUE_FILE: 'queue' },
    read: ({ queue }) => queue.kind,
    expected: 'amqp',
  },
  {
    yaml: 'queueFile: missing',
    env: { SLUICE_QUEUE: 'embedded' },
    read: ({ queue }) => queue.kind,
    expected: 'embedded',
  },
  {
    yaml: 'deliveryLog: store',
    env: { SLUICE_DELIVERY_LOG_FILE: 'log' },
    read: ({ deliveryLog }) => deliveryLog.kind,
    expected: 'cassandra',
  },
  {
    yaml: 'deliveryLogFile: missing',
    env: { SLUICE_DELIVERY_LOG: 'store' },
    read: ({ deliveryLog }) => deliveryLog.kind,
    expected: 'store',
  },
]

const { publicKey } = generateKeyPairSync('ed25519')
const besides = {
  own: ownSecret,
  store: 'postgres://localhost/file',
  state: 'redis://localhost',
  queue: 'amqp://localhost',
  log: 'cassandra://localhost/sluice?dc=a',
  'public.pem': publicKey.export({ type: 'spki', format: 'pem' }) as string,
}

for (const { yaml, env, read, expected } of otherForms) {
  test(`${Object.keys(env)[0]} overrides another form of its setting in the file: ${yaml}`, (t) => {
    const cwd = temporaryFolder(t, { ...besides, 'sluice.yaml': yaml })
    assert.deepEqual(read(loadConfig({ env, cwd })), expected)
  })
}

test('two variables for one setting are refused, whatever the file says', (t) => {
  const cwd = temporaryFolder(t, { ...besides, 'sluice.yaml': jwtOf(`secret: ${fileSecret}`) })
  const keysTwice = { SLUICE_JWT_SECRET_FILE: 'own', SLUICE_JWT_JWKS: jwks }
  assert.throws(
    () => loadConfig({ env: keysTwice, cwd }),
    /SLUICE_JWT_JWKS: stands beside secretFile; one of them is expected/,
  )
  const storeTwice = { SLUICE_STORE: 'sqlite:./variable.db', SLUICE_STORE_FILE: 'store' }
  assert.throws(
    () => loadConfig({ env: storeTwice, cwd }),
    /SLUICE_STORE_FILE: stands beside store; one of them is expected/,
  )
})

test('a file whose content does not serve is named by the field or the variable that names it', (t) => {
  const cwd = temporaryFolder(t, {
    'sluice.yaml': 'http: { port: 0 }\nstateFile: t',
    s: 'SLUICE_STORE=postgres://u:canary@host/db',
    t: 'canary',
  })
  assert.throws(() => loadConfig({ env: { SLUICE_STORE_FILE: 's' }, cwd }), {
    message: [
      'SLUICE_STORE_FILE: names a file whose content does not serve: expected sqlite:<path> or postgres://user@host/database',
      'sluice.yaml:2: stateFile: names a file whose content does not serve: expected memory, redis://user:password@host:6379/0 or redis-cluster://host1:6379,host2:6379',
    ].join('\n'),
  })
})

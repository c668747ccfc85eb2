/** The accounts of the providers: their fields, and the refusal of those that could never work. */
import assert from 'node:assert/strict'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { it } from 'node:test'
import { loadConfig } from '../../src/config/load.ts'
import { temporaryFolder } from './folder.ts'

const sid = `AC${'0'.repeat(32)}`

const good: readonly (readonly [string, string])[] = [
  ['sendgrid', 'email: { provider: sendgrid, accounts: [{ id: a, secret: SG.x, from: s@example.com }] }'],
  [
    'twilio',
    `sms: { provider: twilio, accounts: [{ id: a, sid: ${sid}, secret: t, from: "+15550100200" }] }`,
  ],
  [
    'apns',
    `push: { provider: apns, accounts: [{ id: a, keyId: ABC123DEFG, teamId: DEF123GHIJ, topic: com.example.shop, secret: "-----BEGIN PRIVATE KEY-----" }] }`,
  ],
  ['fcm', `push: { provider: fcm, accounts: [{ id: a, secret: '{"project_id":"p"}' }] }`],
  [
    'telegram',
    'telegram: { provider: telegram, accounts: [{ id: a, secret: "123456:abcdefghijklmnopqrstuvwxyz" }] }',
  ],
  ['slack', 'slack: { provider: slack, accounts: [{ id: a, secret: xoxb-1 }] }'],
  ['slack', 'slack: { provider: slack, accounts: [{ id: a, url: https://hooks.slack.com/services/T/B/K }] }'],
]
for (const [provider, pool] of good) {
  it(`an account of ${provider} has the provider’s own address unless it names another: ${pool}`, (t) => {
    const cwd = temporaryFolder(t, { 'sluice.yaml': `pools:\n  ${pool}\n` })
    const config = loadConfig({ env: {}, cwd })
    assert.equal(config.pools[0]!.provider, provider)
    assert.match(config.pools[0]!.accounts[0]!.account.url ?? '', /^https:/)
  })
}

it('an account of webpush has no address of its own: the browsers’ push services are known', (t) => {
  const pool = `push: { provider: webpush, accounts: [{ id: a, secret: ${'A'.repeat(43)}, subject: "mailto:a@b.example", ttl: 1h }] }`
  const cwd = temporaryFolder(t, { 'sluice.yaml': `pools:\n  ${pool}\n` })
  const { account, rate } = loadConfig({ env: {}, cwd }).pools[0]!.accounts[0]!
  assert.equal(account.url, undefined)
  assert.equal(rate.text, '500/s')
  const { services, ttlMs } = account.options
  assert.ok(Array.isArray(services) && services.includes('fcm.googleapis.com'))
  assert.equal(ttlMs, 3_600_000)
})

const wrong: readonly (readonly [string, RegExp])[] = [
  [
    'push: { provider: webpush, accounts: [{ id: a, secret: canary, subject: me }] }',
    /accounts\[0\]\.secret: expected a private key of VAPID(.|\n)*subject: expected mailto:/,
  ],
  [
    'email: { provider: ses, accounts: [{ id: a, accessKeyId: AKIDEXAMPLE, secret: x, from: s@example.com }] }',
    /accounts\[0\]\.region: is missing/,
  ],
  [
    'email: { provider: sendgrid, accounts: [{ id: a, from: s@example.com }] }',
    /accounts\[0\]\.secret: is missing/,
  ],
  ['email: { provider: sendgrid, accounts: [{ id: a, secret: x }] }', /accounts\[0\]\.from: is missing/],
  [
    'sms: { provider: twilio, accounts: [{ id: a, sid: AC1, secret: x, from: "+1555" }] }',
    /accounts\[0\]\.sid: expected an account SID/,
  ],
  [
    `sms: { provider: twilio, accounts: [{ id: a, sid: ${sid}, secret: x }] }`,
    /accounts\[0\]\.from: is missing; expected it or messagingService/,
  ],
  [
    'push: { provider: apns, accounts: [{ id: a, keyId: ABC123DEFG, teamId: DEF123GHIJ, topic: t, secret: canary }] }',
    /accounts\[0\]\.secret: expected a private key in PEM/,
  ],
  [
    'push: { provider: apns, accounts: [{ id: a, keyId: abc, secret: "-----BEGIN PRIVATE KEY-----" }] }',
    /accounts\[0\]\.keyId: expected the id of the key(.|\n)*teamId: is missing(.|\n)*topic: is missing/,
  ],
  [
    'push: { provider: fcm, accounts: [{ id: a, secret: canary }] }',
    /accounts\[0\]\.secret: expected the JSON of a service account/,
  ],
  [
    'telegram: { provider: telegram, accounts: [{ id: a, secret: canary }] }',
    /accounts\[0\]\.secret: expected a bot token/,
  ],
  ['slack: { provider: slack, accounts: [{ id: a }] }', /accounts\[0\]\.secret: is missing/],
  [
    'sms: { provider: telegram, accounts: [{ id: a, secret: "123456:abcdefghijklmnopqrstuvwxyz" }] }',
    /telegram carries telegram, not sms/,
  ],
]
for (const [pool, says] of wrong) {
  it(`an invalid account is refused: ${pool}`, (t) => {
    const cwd = temporaryFolder(t, { 'sluice.yaml': `pools:\n  ${pool}\n` })
    assert.throws(
      () => loadConfig({ env: {}, cwd }),
      ({ message }: Error) => says.test(message) && !/canary/.test(message),
    )
  })
}

const keyOf = (pair: { readonly privateKey: KeyObject }): string =>
  pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
const unusable: readonly (readonly [string, string, RegExp])[] = [
  ['an Ed25519 key', keyOf(generateKeyPairSync('ed25519')), /holds a key of the kind ed25519; expected RSA/],
  ['an EC key', keyOf(generateKeyPairSync('ec', { namedCurve: 'P-256' })), /of the kind ec; expected RSA/],
  ['a short RSA key', keyOf(generateKeyPairSync('rsa', { modulusLength: 768 })), /too short/],
  ['a broken key', '-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n', /that can sign/],
]
for (const [what, privateKey, says] of unusable) {
  it(`${what} for DKIM is refused before the start, with its place`, (t) => {
    for (const field of ['privateKey', 'privateKeyFile']) {
      const dkim = {
        domainName: 'example.com',
        keySelector: 's',
        [field]: field === 'privateKey' ? privateKey : 'k.pem',
      }
      const pools = { email: { provider: 'smtp', accounts: [{ id: 'a', url: 'smtp://h', dkim }] } }
      const cwd = temporaryFolder(t, { 'sluice.yaml': JSON.stringify({ pools }), 'k.pem': privateKey })
      assert.throws(
        () => loadConfig({ env: {}, cwd }),
        ({ message }: Error) =>
          says.test(message) && message.includes(`dkim.${field}: `) && !/canary/.test(message),
      )
    }
  })
}

it('a sender has ASCII before the @, wherever it is configured; its name and domain may be of any script', (t) => {
  const load = (account: object): void => {
    const pools = { email: { provider: 'smtp', accounts: [{ id: 'a', url: 'smtp://h', ...account }] } }
    loadConfig({ env: {}, cwd: temporaryFolder(t, { 'sluice.yaml': JSON.stringify({ pools }) }) })
  }
  for (const from of ['größe@example.com', 'Shop <größe@example.com>']) {
    assert.throws(() => load({ from }), /accounts\[0\]\.from: expected .* ASCII before the @/)
    assert.throws(
      () => load({ url: `smtp://h?from=${encodeURIComponent(from)}` }),
      /accounts\[0\]\.url: names a sender in its query that is none/,
    )
  }
  for (const from of [
    'Größe <shop@example.com>',
    'shop@bücher.example',
    'Shop shop@example.com',
    'a.b+c@d.example',
  ]) {
    load({ from })
    load({ url: `smtp://h?from=${encodeURIComponent(from)}` })
  }
})

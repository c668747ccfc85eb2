import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { parse } from 'yaml'
import { configText, describeConfig, masked, restartFields, shownUrl } from '../../src/config/describe.ts'
import { loadConfig } from '../../src/config/load.ts'
import { temporaryFolder } from './folder.ts'
import { signingKey } from './signing-key.ts'

const rich = `
http: { host: "::1", port: 0, publicUrl: https://notify.example.com, drainMs: 5s, overLimitStatus: 202, bodyMax: 1000 }
tenants: { default: { rate: [10/s, 100/h], modules: unlimited }, acme: { weight: 3, queue: 7 } }
pools:
  email: { provider: smtp, accounts: [{ id: a, url: "smtp://mail.example.com:25", from: "Shop <shop@example.com>", tls: off, rate: [1/s, 9/min] }] }
  sms: { provider: sandbox, timeout: 3s, retry: { base: 2s, cap: 1min, attempts: 9, greylisting: { base: 1min, for: 1d }, outage: { cap: 1h } }, accounts: [{ id: b, allows: [5/s, 9/min], latency: 20ms, odds: { fail: 0.05 } }] }
  webhook: { provider: webhook, accounts: [{ id: c, concurrency: 3 }] }
auth: { jwt: { jwks: https://issuer.example/jwks.json?v=1, issuer: https://issuer.example, audience: sluice, algorithms: [ES256] }, claims: { tenant: org } }
limits: { margin: 5ms }
network: { allowPrivate: true, proxy: http://proxy.example.com:3128, noProxy: [.example.com] }
retention: { notifications: 60d }
log: { level: debug }
`

test('the described configuration can be written to a file and loaded again', (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': rich })
  const config = loadConfig({ env: {}, cwd })
  const again = temporaryFolder(t, { 'sluice.yaml': configText(config) })
  const { file: _, policy, ...loaded } = loadConfig({ env: {}, cwd: again })
  const { file: __, policy: first, ...expected } = config
  assert.deepEqual(loaded, expected)
  assert.equal(policy.compiled.version, first.compiled.version)
  assert.deepEqual(parse(configText(config)), describeConfig(config), 'text and data say the same')
})

test('the described defaults can be written to a file and loaded again', (t) => {
  const cwd = temporaryFolder(t)
  const config = loadConfig({ env: {}, cwd })
  const {
    file: _,
    policy: __,
    ...loaded
  } = loadConfig({ env: {}, cwd: temporaryFolder(t, { 'sluice.yaml': configText(config) }) })
  const { file: ___, policy: ____, ...expected } = config
  assert.deepEqual(loaded, expected)
})

test('no secret is shown', (t) => {
  const cwd = temporaryFolder(t, {
    'sluice.yaml': `
auth: { jwt: { secret: canary-canary-canary-canary-canary-canary, issuer: https://i.example, audience: sluice } }
unsubscribe: { secret: canary-canary-canary }
network: { proxy: "http://canary:canary@proxy.example.com:3128" }
pools:
  email:
    provider: smtp
    accounts: [{ id: a, url: "smtp://canary:canary@mail.example.com/?auth=canary", dkim: { domainName: example.com, keySelector: s, privateKey: ${JSON.stringify(signingKey)} } }]
  slack: { provider: webhook, accounts: [{ id: b, url: "https://hooks.example.com/services/canary?k=canary", secret: whsec_Y2FuYXJ5Y2FuYXJ5 }] }
`,
  })
  const config = loadConfig({ env: {}, cwd })
  const text = configText(config)
  assert.doesNotMatch(text, /canary|Y2FuYXJ5/)
  assert.ok(!text.includes(signingKey.split('\n')[1]!))
  assert.match(text, /mail\.example\.com/)
  assert.equal((describeConfig(config).unsubscribe as { secret: string }).secret, masked)
})

test('of a URL only the host is shown, without credentials', () => {
  assert.equal(shownUrl('smtp://localhost:1025'), 'smtp://localhost:1025')
  assert.equal(shownUrl('smtps://u:p@h'), `smtps://${masked}@h`)
  assert.equal(shownUrl('https://h/a/b?c=d'), 'https://h/…')
})

test('paths are shown as they were resolved', (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': 'store: sqlite:x.db' })
  assert.equal(describeConfig(loadConfig({ env: {}, cwd })).store, `sqlite:${join(cwd, 'x.db')}`)
})

test('a changed password of an engine takes a restart, although no description shows it', (t) => {
  const written = {
    store: 'postgres://sluice:old@db/sluice',
    state: 'redis://:old@redis',
    queue: 'amqp://sluice:old@rabbitmq',
    intake: [{ kafka: 'kafkas://sluice:old@kafka:9093', topic: 't', group: 'g' }],
    deliveryLog: 'cassandra://sluice:old@cassandra/sluice',
  }
  const load = (config: object) =>
    loadConfig({ env: {}, cwd: temporaryFolder(t, { 'sluice.yaml': JSON.stringify(config) }) })
  const before = load(written)
  assert.deepEqual(restartFields(before, load(written)), [])
  for (const [name, value] of Object.entries(written)) {
    const changed = JSON.parse(JSON.stringify(value).replace(':old@', ':new@'))
    assert.deepEqual(restartFields(before, load({ ...written, [name]: changed })), [name])
  }
})

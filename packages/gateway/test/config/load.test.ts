import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { tenantOf } from '../../src/config/config.ts'
import { loadConfig } from '../../src/config/load.ts'
import { channels } from '../../src/model.ts'
import { temporaryFolder } from './folder.ts'

function load(
  t: TestContext,
  files: Readonly<Record<string, string>>,
  env: Readonly<Record<string, string>> = {},
) {
  const cwd = temporaryFolder(t, files)
  return { cwd, config: loadConfig({ env, cwd }) }
}

test('without a file every setting has its default', (t) => {
  const { cwd, config } = load(t, {})
  const { policy, pools, tenants, ...rest } = config
  assert.deepEqual(rest, {
    file: undefined,
    http: {
      host: '127.0.0.1',
      port: 8080,
      publicUrl: undefined,
      drainMs: 30_000,
      drainDelayMs: 0,
      overLimitStatus: 429,
      requestTimeoutMs: 10_000,
      connectionsMax: 10_000,
      bodyMaxBytes: 1_048_576,
      batchBodyMaxBytes: 8_388_608,
      dataMaxBytes: 65_536,
    },
    auth: undefined,
    store: { kind: 'sqlite', path: join(cwd, 'data/sluice.db') },
    state: { kind: 'memory' },
    queue: { kind: 'embedded' },
    intake: [],
    deliveryLog: { kind: 'store' },
    templates: undefined,
    webSocket: {
      messageMaxBytes: 65_536,
      subscriptionsMax: 50,
      framesPerSecond: 1_000,
      waitingMax: 1_000,
      unreadMaxBytes: 1_048_576,
      heartbeatMs: 30_000,
      connectionsMax: 8_000,
      absent: { default: { kind: 'wait' }, byCategory: new Map(), waitMaxMs: 86_400_000 },
    },
    limits: { marginMs: 20 },
    alerts: undefined,
    network: { allowPrivate: false },
    unsubscribe: { secret: undefined, keyFile: join(cwd, 'data/unsubscribe.key') },
    retention: {
      answersMs: 86_400_000,
      notificationsMs: 31 * 86_400_000,
      deliveryLogMs: 365 * 86_400_000,
    },
    log: {
      level: 'info',
      recipient: 'hash',
      host: false,
      requests: 'failed',
      keyFile: join(cwd, 'data/log.key'),
    },
    metrics: { accounts: false, tenantsTop: undefined, listen: undefined },
  })
  assert.equal(policy.builtIn, true)
  assert.ok(policy.compiled.rulesFor)
  assert.deepEqual(tenants.default, {
    rate: { text: '100/min', windows: [{ max: 100, windowMs: 60_000, text: '100/min' }] },
    modules: { text: '50/min', windows: [{ max: 50, windowMs: 60_000, text: '50/min' }] },
    queueMax: 10_000,
    waitingMax: 1_000_000,
    reads: { text: '100/s', windows: [{ max: 100, windowMs: 1_000, text: '100/s' }] },
    writes: { text: '1000/s', windows: [{ max: 1_000, windowMs: 1_000, text: '1000/s' }] },
    bytesMax: 2 ** 30,
    weight: 1,
    webSocketRate: { text: '200/s', windows: [{ max: 200, windowMs: 1_000, text: '200/s' }] },
    webSocketsMax: 1_000,
  })
  assert.deepEqual(
    pools.map(({ channel, provider, accounts }) => [channel, provider, accounts[0]?.rate.text]),
    channels.map((channel) => [channel, 'sandbox', 'unlimited']),
  )
})

test('an empty file and empty keys give the defaults too', (t) => {
  const { config } = load(t, { 'sluice.yaml': '# nothing\n' })
  assert.equal(config.http.port, 8080)
  assert.ok(config.file?.endsWith('sluice.yaml'))
  assert.equal(
    load(t, { 'sluice.yaml': 'http:\npools:\nlog: { level: }\n' }).config.pools.length,
    channels.length,
  )
})

test('the file of the contract is read to the letter', (t) => {
  const { cwd, config } = load(t, {
    'conf/sluice.yaml': `
http: { host: 127.0.0.1, port: 8181 }
store: sqlite:./data/own.db
state: memory
queue: embedded
intake: []
deliveryLog: store
policy: ./policy.yaml
tenants:
  default: { rate: 100/min, modules: 50/min, queue: 10000, waiting: 1000000 }
  big: { rate: [1000/s, 1h/h], weight: 4 }
pools:
  email:
    provider: smtp
    accounts: [{ id: main, url: smtp://localhost:1025, rate: 100/s }]
  webhook:
    provider: webhook
    accounts: [{ id: hook-1, url: http://localhost:9000/in, secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, rate: [20/s, 1000/h] }]
`.replace('1h/h', '50000/h'),
    'conf/policy.yaml': 'limits: [{ name: all, for: any, max: 3/day }]',
  })
  assert.equal(config.policy.builtIn, true, 'a file that nobody named is not read')
  const named = loadConfig({ path: 'conf/sluice.yaml', env: {}, cwd })
  assert.equal(named.store.path, join(cwd, 'conf/data/own.db'))
  assert.equal(named.policy.file, join(cwd, 'conf/policy.yaml'))
  assert.equal(named.policy.compiled.longestWindowMs, 86_400_000)
  assert.equal(tenantOf(named.tenants, 'other'), named.tenants.default)
  const big = tenantOf(named.tenants, 'big')
  assert.deepEqual(
    [big.rate.text, big.modules.text, big.queueMax, big.weight],
    ['1000/s, 50000/h', '50/min', 10_000, 4],
  )
  assert.deepEqual(
    named.pools.map(({ channel, provider, accounts }) => [channel, provider, accounts]),
    [
      [
        'email',
        'smtp',
        [
          {
            account: { id: 'main', url: 'smtp://localhost:1025', options: { connections: 16 } },
            rate: { text: '100/s', windows: [{ max: 100, windowMs: 1_000, text: '100/s' }] },
            concurrencyMax: 16,
          },
        ],
      ],
      [
        'webhook',
        'webhook',
        [
          {
            account: {
              id: 'hook-1',
              url: 'http://localhost:9000/in',
              secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
              options: {},
            },
            rate: {
              text: '20/s, 1000/h',
              windows: [
                { max: 20, windowMs: 1_000, text: '20/s' },
                { max: 1_000, windowMs: 3_600_000, text: '1000/h' },
              ],
            },
            concurrencyMax: 64,
          },
        ],
      ],
      [
        'websocket',
        'websocket',
        [
          {
            account: { id: 'websocket', options: {} },
            rate: { text: 'unlimited', windows: [] },
            concurrencyMax: 1_024,
          },
        ],
      ],
    ],
    'with pools only what they name is served, and the gateway’s own door',
  )
})

test('the file is found by argument, else by SLUICE_CONFIG, else as sluice.yaml in the working folder', (t) => {
  const cwd = temporaryFolder(t, {
    'sluice.yaml': 'http: { port: 1 }',
    'variable.yaml': 'http: { port: 2 }',
    'argument.yaml': 'http: { port: 3 }',
  })
  assert.equal(loadConfig({ env: {}, cwd }).http.port, 1)
  assert.equal(loadConfig({ env: { SLUICE_CONFIG: 'variable.yaml' }, cwd }).http.port, 2)
  assert.equal(
    loadConfig({ env: { SLUICE_CONFIG: 'variable.yaml' }, cwd, path: 'argument.yaml' }).http.port,
    3,
  )
})

test('variables override the file, and relative paths in them mean the working folder', (t) => {
  const cwd = temporaryFolder(t, {
    'conf/sluice.yaml':
      'http: { host: localhost, port: 1 }\nstore: sqlite:file.db\ntenants: { default: { queue: 5 }, own: { rate: 7/s } }',
    'p.yaml': 'limits: []',
    'conf/p.yaml': 'limits: [{ name: wrong, for: any, max: 1/s }]',
  })
  const config = loadConfig({
    path: 'conf/sluice.yaml',
    cwd,
    env: {
      SLUICE_HTTP_HOST: '::1',
      SLUICE_HTTP_PORT: '9090',
      SLUICE_HTTP_PUBLIC_URL: 'https://notify.example.com/base/',
      SLUICE_STORE: 'sqlite:./other.db',
      SLUICE_STATE: 'memory',
      SLUICE_QUEUE: 'embedded',
      SLUICE_POLICY: './p.yaml',
      SLUICE_LOG_LEVEL: 'warn',
      NOTIFY_RATE_LIMIT_PER_TENANT: '300',
      NOTIFY_RATE_LIMIT_PER_MODULE: 'unlimited',
      NOTIFY_RABBITMQ_MAX_QUEUE_LENGTH: '77',
      NOTIFY_WS_RATE_PER_TENANT: '20',
      NOTIFY_WS_MAX_CONNECTIONS_PER_TENANT: '3',
      SLUICE_SERVICE_HOST: '10.0.0.1',
      SLUICE_PORT: 'tcp://10.0.0.1:80',
    },
  })
  assert.deepEqual(
    [config.http.host, config.http.port, config.http.publicUrl],
    ['::1', 9090, 'https://notify.example.com/base'],
  )
  assert.equal(config.store.path, join(cwd, 'other.db'))
  assert.equal(config.policy.file, join(cwd, 'p.yaml'))
  assert.equal(config.log.level, 'warn')
  const { rate, modules, queueMax, webSocketRate, webSocketsMax } = config.tenants.default
  assert.deepEqual([rate.text, modules.windows.length, queueMax], ['300/min', 0, 77])
  assert.deepEqual([webSocketRate.text, webSocketsMax], ['20/s', 3])
  assert.deepEqual(
    tenantOf(config.tenants, 'own').rate.text,
    '7/s',
    'a tenant with an entry of its own keeps it',
  )
})

test('a variable that is empty counts as not set', (t) => {
  const { config } = load(
    t,
    { 'sluice.yaml': 'http: { port: 1 }' },
    { SLUICE_HTTP_PORT: '', SLUICE_JWT_SECRET: '', SLUICE_CONFIG: '' },
  )
  assert.equal(config.http.port, 1)
})

test('the default store lies in the working folder, wherever the file is', (t) => {
  const cwd = temporaryFolder(t, { 'conf/s.yaml': 'http: { port: 1 }' })
  assert.equal(loadConfig({ path: 'conf/s.yaml', env: {}, cwd }).store.path, join(cwd, 'data/sluice.db'))
})

test('an absolute path and a store in memory are taken as they are', (t) => {
  assert.equal(load(t, { 'sluice.yaml': 'store: sqlite:/var/lib/s.db' }).config.store.path, '/var/lib/s.db')
  assert.equal(load(t, { 'sluice.yaml': 'store: sqlite:///var/lib/s.db' }).config.store.path, '/var/lib/s.db')
  const { store, unsubscribe } = load(t, { 'sluice.yaml': 'store: "sqlite::memory:"' }).config
  assert.deepEqual([store.path, unsubscribe.keyFile], [':memory:', undefined])
})

test('an account without a rate gets the usual one of its channel, and in the sandbox none', (t) => {
  const { config } = load(t, {
    'sluice.yaml': `
pools:
  email: { provider: smtp, accounts: [{ id: a, url: "smtp://localhost" }] }
  sms: { provider: webhook, accounts: [{ id: a, url: "http://localhost/" }] }
  push: { provider: webhook, accounts: [{ id: a, url: "http://localhost/" }, { id: b, url: "http://localhost/", rate: unlimited }] }
  slack: { provider: sandbox }
  webhook: [{ provider: webhook }]
`,
  })
  assert.deepEqual(
    config.pools.map(({ channel, accounts }) => [
      channel,
      ...accounts.map(({ account, rate }) => `${account.id} ${rate.text}`),
    ]),
    [
      ['email', 'a 100/s, 50000/h'],
      ['sms', 'a 10/s'],
      ['push', 'a 500/s', 'b unlimited'],
      ['slack', 'sandbox unlimited'],
      ['webhook', 'webhook unlimited'],
      ['websocket', 'websocket unlimited'],
    ],
  )
})

test('an smtp account has as many connections as parallel calls, unless both are configured', (t) => {
  const { config } = load(t, {
    'sluice.yaml': `
pools:
  email:
    provider: smtp
    accounts:
      - { id: a, url: "smtp://localhost" }
      - { id: b, url: "smtp://localhost", connections: 3 }
      - { id: c, url: "smtp://localhost", concurrency: 5 }
      - { id: d, url: "smtp://localhost", connections: 2, concurrency: 9, tls: required }
`,
  })
  assert.deepEqual(
    config.pools[0]?.accounts.map(({ account, concurrencyMax }) => [
      account.options.connections,
      concurrencyMax,
      account.options.tls,
    ]),
    [
      [16, 16, undefined],
      [3, 3, undefined],
      [5, 5, undefined],
      [2, 9, 'required'],
    ],
  )
})

test('a sandbox account configures its behaviour in the words of the sandbox', (t) => {
  const { config } = load(t, {
    'sluice.yaml':
      'pools: { sms: { provider: sandbox, accounts: [{ id: s, latency: 20ms, allows: [5/s, 100/min], odds: { fail: 5%, hang: 0.01 } }] } }',
  })
  assert.deepEqual(config.pools[0]?.accounts[0]?.account.options, {
    latency: 20,
    rates: [
      { max: 5, windowMs: 1_000 },
      { max: 100, windowMs: 60_000 },
    ],
    odds: { fail: 0.05, hang: 0.01 },
  })
})

test('times of a pool and sizes of bodies are read in their units', (t) => {
  const { config } = load(t, {
    'sluice.yaml': `
http: { drainMs: 5s, requestTimeout: 2500, bodyMax: 2MiB, batchBodyMax: 1000, dataMax: 1KB, overLimitStatus: 202 }
limits: { margin: 0 }
retention: { answers: 48h, notifications: 1month }
pools: { push: { provider: sandbox, timeout: 3s, retry: { base: 10min, attempts: 2, outage: { base: 1h, for: 1d } } } }
`,
  })
  const { http, pools, retention, limits } = config
  assert.deepEqual(
    [
      http.drainMs,
      http.requestTimeoutMs,
      http.bodyMaxBytes,
      http.batchBodyMaxBytes,
      http.dataMaxBytes,
      http.overLimitStatus,
    ],
    [5_000, 2_500, 2_097_152, 1_000, 1_000, 202],
  )
  assert.deepEqual(
    [limits.marginMs, retention.answersMs, retention.notificationsMs],
    [0, 172_800_000, 2_592_000_000],
  )
  assert.deepEqual(
    [pools[0]?.timeoutMs, pools[0]?.retry],
    [
      3_000,
      {
        baseMs: 600_000,
        capMs: 600_000,
        attemptsMax: 2,
        budget: 0.2,
        greylisting: { baseMs: 300_000, capMs: 14_400_000, forMs: 345_600_000, attemptsMax: 2 },
        outage: { baseMs: 3_600_000, capMs: 3_600_000, forMs: 86_400_000, attemptsMax: 2 },
      },
    ],
  )
})

test('delivery to offline recipients is configured by category', (t) => {
  const { config } = load(t, {
    'sluice.yaml': `
pools: { sms: { provider: sandbox } }
websocket: { absent: { default: drop, security: "fallback:sms" }, waitMax: 2h }
`,
  })
  const { default: usual, byCategory, waitMaxMs } = config.webSocket.absent
  assert.deepEqual(
    [usual, byCategory.get('security'), waitMaxMs],
    [{ kind: 'drop' }, { kind: 'fallback', channel: 'sms' }, 7_200_000],
  )
})

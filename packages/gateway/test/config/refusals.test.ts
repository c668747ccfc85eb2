import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadConfig } from '../../src/config/load.ts'
import { providerNames } from '../../src/providers/configs.ts'
import { temporaryFolder } from './folder.ts'
import { later, type Refusal, rate, testRefusals } from './refusal.ts'

const refusals: readonly Refusal[] = [
  {
    name: 'a key that is misspelt',
    yaml: 'http:\n  prot: 80\n',
    says: ['sluice.yaml:2: http.prot: is not known here: did you mean "port"?'],
  },
  {
    name: 'a key that is like no other',
    yaml: 'network: { xyzzy: 1 }',
    says: [
      'sluice.yaml:1: network.xyzzy: is not known here; known are allowPrivate, proxy, proxyFile, noProxy, ca',
    ],
  },
  {
    name: 'a number in quotes',
    yaml: 'http: { port: "80" }',
    says: ['sluice.yaml:1: http.port: expected a whole number from 0 to 65535; this is "80"'],
  },
  {
    name: 'a number out of bounds',
    yaml: 'http: { port: 65536 }',
    says: ['sluice.yaml:1: http.port: expected a whole number from 0 to 65535; this is 65536'],
  },
  {
    name: 'a section that is no object',
    yaml: 'http: 8080',
    says: [
      'sluice.yaml:1: http: expected an object with host, port, publicUrl, drainMs, drainDelay, overLimitStatus, requestTimeout, connectionsMax, bodyMax, batchBodyMax, dataMax; this is 8080',
    ],
  },
  {
    name: 'a file that is no object',
    yaml: '- a\n',
    says: [
      'sluice.yaml:1: expected an object with http, auth, store, storeFile, state, stateFile, queue, queueFile, intake, deliveryLog, deliveryLogFile, policy, templates, tenants, websocket, pools, limits, alerts, network, unsubscribe, retention, log, metrics; this is ["a"]',
    ],
  },
  {
    name: 'an address that others reach, as long as there are no keys',
    yaml: '\nhttp: { host: 0.0.0.0 }',
    says: [
      'sluice.yaml:2: http.host: "0.0.0.0" is no loopback address: without keys for tokens the gateway serves this machine only; expected 127.0.0.1, ::1 or localhost, or keys under auth.jwt',
    ],
  },
  {
    name: 'a public address that mail programs would not call',
    yaml: 'http: { publicUrl: "http://a.example" }',
    says: [
      'sluice.yaml:1: http.publicUrl: expected an https URL such as https://notify.example.com: mail programs follow no other (RFC 8058)',
    ],
  },
  {
    name: 'PostgreSQL without a database, without showing its password',
    yaml: 'store: postgres://u:canary@h',
    says: [
      'sluice.yaml:1: store: expected a host and a database, as in postgres://user:password@host:5432/database; within a user or a password @ is written %40, / %2F, ? %3F, # %23 and % %25',
    ],
  },
  {
    name: 'PostgreSQL with a kind of TLS that falls back to none',
    yaml: 'store: postgres://u:canary@h/db?sslmode=prefer',
    says: ['sluice.yaml:1: store: expected sslmode=disable, require, verify-ca, verify-full, not "prefer"'],
  },
  {
    name: 'PostgreSQL with an option that nobody knows',
    yaml: 'store: postgres://u:canary@h/db?pool=7',
    says: [
      'sluice.yaml:1: store: "pool" is not known; expected sslmode, sslrootcert, sslcert, sslkey, schema',
    ],
  },
  {
    name: 'PostgreSQL with the name of a schema that would have to be quoted',
    yaml: 'store: postgres://u:canary@h/db?schema=Sluice-1',
    says: ['sluice.yaml:1: store: expected a schema of at most 63 small letters, digits and underscores'],
  },
  {
    name: 'a store that nobody knows',
    yaml: 'store: ./sluice.db',
    says: ['sluice.yaml:1: store: expected sqlite:<path> or postgres://user@host/database'],
  },
  {
    name: 'a store URL with a host',
    yaml: 'store: sqlite://host/x.db',
    says: ['sluice.yaml:1: store: expected sqlite:<path> or postgres://user@host/database'],
  },
  {
    name: 'a queue that is neither embedded nor RabbitMQ',
    yaml: 'queue: redis://h',
    says: ['sluice.yaml:1: queue: expected embedded, or amqp://user:password@host1,host2:5672/vhost'],
  },
  {
    name: 'a delivery log without a keyspace',
    yaml: 'deliveryLog: cassandra://h',
    says: [
      'sluice.yaml:1: deliveryLog: expected store, or cassandra://user:password@host1,host2:9042/keyspace?dc=datacenter1 with a keyspace of lower-case letters, digits and _',
    ],
  },
  {
    name: 'Kafka',
    yaml: 'intake: [{ kafka: "h:9092" }]',
    says: ['sluice.yaml:1: intake[0].topic: is missing; expected the name of a topic'],
  },
  {
    name: 'a breaker that any call would open',
    yaml: 'pools:\n  sms:\n    provider: sandbox\n    breaker: { failures: 0%, within: 5ms, coolDown: 2min, coolDownMax: 1min }',
    says: [
      'sluice.yaml:4: pools.sms.breaker.failures: expected more than 0%: any call would open it',
      'sluice.yaml:4: pools.sms.breaker.within: expected at least 10ms',
      'sluice.yaml:4: pools.sms.breaker.coolDownMax: is shorter than coolDown',
    ],
  },
  {
    name: 'an account in two pools of a channel',
    yaml: 'pools:\n  sms:\n    - { provider: sandbox }\n    - { provider: sandbox }',
    says: ['sluice.yaml:4: pools.sms[1].accounts: "sandbox" is the id of an account of the pool before'],
  },
  {
    name: 'a word that a pool in a list does not know',
    yaml: 'pools: { sms: [{ provider: sandbox, breaker: { after: 3 } }] }',
    says: [
      'sluice.yaml:1: pools.sms[0].breaker.after: is not known here; known are failures, of, within, inARow, coolDown, coolDownMax',
    ],
  },
  {
    name: 'a provider of later',
    yaml: 'pools: { sms: { provider: mailgun } }',
    says: [`sluice.yaml:1: pools.sms.provider: mailgun ${later}`],
  },
  {
    name: 'a fallback for the absent to the channel itself',
    yaml: 'pools: { email: { provider: sandbox } }\nwebsocket: { absent: { security: "fallback:websocket" } }',
    says: [
      'sluice.yaml:2: websocket.absent.security: expected wait, drop, or fallback: and a channel, as in fallback:push; this is "fallback:websocket"',
    ],
  },
  {
    name: 'a fallback for the absent to a channel that nobody serves',
    yaml: 'pools: { email: { provider: sandbox } }\nwebsocket: { absent: { default: "fallback:sms" }, heartbeat: 1ms }',
    says: [
      'sluice.yaml:2: websocket.heartbeat: expected at least 100ms',
      'sluice.yaml:2: websocket.absent.default: no pool serves sms',
    ],
  },
  {
    name: 'a provider that is misspelt',
    yaml: 'pools: { email: { provider: stmp } }',
    says: [
      `sluice.yaml:1: pools.email.provider: expected one of ${providerNames.join(', ')}; this is "stmp": did you mean "smtp"?`,
    ],
  },
  {
    name: 'a pool without a provider',
    yaml: 'pools: { email: { accounts: [] } }',
    says: [`sluice.yaml:1: pools.email.provider: is missing; expected one of ${providerNames.join(', ')}`],
  },
  {
    name: 'a pool that is a text',
    yaml: 'pools: { email: smtp }',
    says: [
      'sluice.yaml:1: pools.email: expected a pool, that is an object with provider and accounts; this is "smtp"',
    ],
  },
  {
    name: 'a channel that is misspelt',
    yaml: 'pools: { emial: { provider: sandbox } }',
    says: ['sluice.yaml:1: pools.emial: is not known here: did you mean "email"?'],
  },
  {
    name: 'a provider that cannot carry the channel',
    yaml: 'pools: { sms: { provider: smtp, accounts: [{ id: a, url: "smtp://h" }] } }',
    says: ['sluice.yaml:1: pools.sms.provider: smtp carries email, not sms'],
  },
  {
    name: 'mail without accounts',
    yaml: 'pools: { email: { provider: smtp } }',
    says: ['sluice.yaml:1: pools.email.accounts: is missing; expected a list of at least one account'],
  },
  {
    name: 'accounts that are none',
    yaml: 'pools: { email: { provider: sandbox, accounts: [] } }',
    says: ['sluice.yaml:1: pools.email.accounts: expected a list of at least one account; this is []'],
  },
  {
    name: 'every mistake of several accounts, at once',
    yaml: 'pools:\n  email:\n    provider: smtp\n    accounts:\n      - { id: a, url: "http://h" }\n      - { id: a, url: "smtp://h", rate: 0/s }\n      - { id: b c }\n      - { url: "smtp://h", conections: 3 }',
    says: [
      'sluice.yaml:5: pools.email.accounts[0].url: expected a URL with smtp:// or smtps://',
      `sluice.yaml:6: pools.email.accounts[1].rate: ${rate}; this is "0/s" (a rate of 0 would let nothing through, ever)`,
      'sluice.yaml:6: pools.email.accounts[1].id: "a" is the id of another account of this pool',
      'sluice.yaml:7: pools.email.accounts[2].id: expected a name of letters, digits, dots and dashes; this is "b c"',
      'sluice.yaml:7: pools.email.accounts[2].url: is missing; expected a URL with smtp:// or smtps://',
      'sluice.yaml:8: pools.email.accounts[3].id: is missing; expected a name of letters, digits, dots and dashes',
      'sluice.yaml:8: pools.email.accounts[3].conections: is not known here: did you mean "connections"?',
    ],
  },
  {
    name: 'a webhook that no recipient can give an address',
    yaml: 'pools: { sms: { provider: webhook } }',
    says: ['sluice.yaml:1: pools.sms.accounts[0].url: is missing; expected a URL with http:// or https://'],
  },
  {
    name: 'a secret of the wrong form, without showing it',
    yaml: 'pools: { webhook: { provider: webhook, accounts: [{ id: a, secret: canary }] } }',
    says: ['sluice.yaml:1: pools.webhook.accounts[0].secret: expected whsec_ and a key in base64'],
  },
  {
    name: 'a secret twice',
    yaml: 'unsubscribe: { secret: 0123456789abcdef, secretFile: x }',
    says: ['sluice.yaml:1: unsubscribe.secretFile: stands beside secret; one of them is expected'],
  },
  {
    name: 'a secret that is too short',
    yaml: 'unsubscribe: { secret: canary }',
    says: ['sluice.yaml:1: unsubscribe.secret: expected a secret of at least 16 characters'],
  },
  {
    name: 'a file of a secret that is not there',
    yaml: 'unsubscribe: { secretFile: none }',
    says: ['sluice.yaml:1: unsubscribe.secretFile: names a file that cannot be read (there is none)'],
  },
  {
    name: 'a file of a secret with too little in it',
    yaml: 'unsubscribe: { secretFile: s }',
    files: { s: 'canary' },
    says: ['sluice.yaml:1: unsubscribe.secretFile: names a file with less than 16 characters in it'],
  },
  {
    name: 'a file of a secret of the wrong form',
    yaml: 'pools: { webhook: { provider: webhook, accounts: [{ id: a, secretFile: s }] } }',
    files: { s: 'canary' },
    says: [
      'sluice.yaml:1: pools.webhook.accounts[0].secretFile: names a file that holds no whsec_ and key in base64',
    ],
  },
  {
    name: 'a signature without its key',
    yaml: 'pools: { email: { provider: smtp, accounts: [{ id: a, url: "smtp://h", dkim: { domainName: d, keySelector: s } }] } }',
    says: [
      'sluice.yaml:1: pools.email.accounts[0].dkim.privateKey: is missing; expected it or privateKeyFile',
    ],
  },
  {
    name: 'a sender with a line break',
    yaml: 'pools: { email: { provider: smtp, accounts: [{ id: a, url: "smtp://h", from: "a@b.example\\r\\nBcc: c@d.example" }] } }',
    says: [
      'sluice.yaml:1: pools.email.accounts[0].from: expected an address such as Shop <shop@example.com>, ASCII before the @; this is "a@b.example\\r\\nBcc: c@d.example"',
    ],
  },
  {
    name: 'odds beyond certainty',
    yaml: 'pools: { sms: { provider: sandbox, accounts: [{ id: a, odds: { fail: 60%, hang: 41% } }] } }',
    says: ['sluice.yaml:1: pools.sms.accounts[0].odds: is more than 100% together'],
  },
  {
    name: 'one sandbox account that behaves in two ways',
    yaml: 'pools:\n  sms: { provider: sandbox, accounts: [{ id: a, latency: 1s }] }\n  push:\n    provider: sandbox\n    accounts: [{ id: a }]',
    says: [
      'sluice.yaml:5: pools.push.accounts: "a" behaves otherwise in another channel; give it an id of its own',
    ],
  },
  {
    name: 'waits that end before they begin',
    yaml: 'pools: { sms: { provider: sandbox, retry: { base: 10s, cap: 1s } } }',
    says: ['sluice.yaml:1: pools.sms.retry.cap: is shorter than base'],
  },
  {
    name: 'patience that ends before it begins',
    yaml: 'pools: { sms: { provider: sandbox, retry: { outage: { base: 10s, cap: 1s } } } }',
    says: ['sluice.yaml:1: pools.sms.retry.outage.cap: is shorter than base'],
  },
  {
    name: 'a proxy that is none',
    yaml: 'network: { proxy: "socks5://proxy:1080" }',
    says: ['sluice.yaml:1: network.proxy: expected an http or https URL'],
  },
  {
    name: 'hosts that are called without a proxy that there is not',
    yaml: 'network: { noProxy: [a.example] }',
    says: ['sluice.yaml:1: network.noProxy: stands without proxy'],
  },
  {
    name: 'authorities in a file that is not there',
    yaml: 'network: { ca: ./no-such.pem }',
    says: ['sluice.yaml:1: network.ca: names a file that cannot be read (there is none)'],
  },
  {
    name: 'a rate in no unit',
    yaml: 'tenants: { default: { rate: 100/mn } }',
    says: [`sluice.yaml:1: tenants.default.rate: ${rate}; this is "100/mn"`],
  },
  {
    name: 'a list of rates of which one is no bound',
    yaml: 'tenants: { default: { rate: [unlimited, 1/s] } }',
    says: [`sluice.yaml:1: tenants.default.rate: ${rate}; this is ["unlimited", "1/s"]`],
  },
  {
    name: 'a list of rates of which two are equally long',
    yaml: 'pools: { email: { provider: sandbox, accounts: [{ id: a, rate: [60/min, "9/h, 1/60s"] }] } }',
    says: [
      `sluice.yaml:1: pools.email.accounts[0].rate: ${rate}; this is ["60/min", "9/h, 1/60s"] ('60/min' and '1/60s' are equally long: keep the tighter)`,
    ],
  },
  {
    name: 'a rate that is a number',
    yaml: 'tenants: { acme: { modules: 100 } }',
    says: [`sluice.yaml:1: tenants.acme.modules: ${rate}; this is 100`],
  },
  {
    name: 'a window that is too long',
    yaml: 'tenants: { default: { rate: 5/32d } }',
    says: [
      `sluice.yaml:1: tenants.default.rate: ${rate}; this is "5/32d" ('5/32d' lasts 2764800000 ms: 1ms to 31d is possible, since what was counted is kept for 31 days)`,
    ],
  },
  {
    name: 'a duration in no unit',
    yaml: 'http: { drainMs: 30 sec }',
    says: ['sluice.yaml:1: http.drainMs: expected a duration such as 300ms, 30s or 24h; this is "30 sec"'],
  },
  {
    name: 'a duration below zero',
    yaml: 'http: { drainMs: -1 }',
    says: ['sluice.yaml:1: http.drainMs: expected a duration such as 300ms, 30s or 24h; this is -1'],
  },
  {
    name: 'a size in no unit',
    yaml: 'http: { bodyMax: 1 Mb }',
    says: ['sluice.yaml:1: http.bodyMax: expected a size such as 64KiB or 1MiB; this is "1 Mb"'],
  },
  {
    name: 'another answer for what is over the limit',
    yaml: 'http: { overLimitStatus: 200 }',
    says: ['sluice.yaml:1: http.overLimitStatus: expected 429 or 202; this is 200'],
  },
  {
    name: 'answers forgotten before the contract allows it',
    yaml: 'retention: { answers: 1h }',
    says: ['sluice.yaml:1: retention.answers: expected at least 24h: clients rely on it'],
  },
  {
    name: 'notifications forgotten while they count',
    yaml: 'retention: { notifications: 29d }',
    says: [
      'sluice.yaml:1: retention.notifications: is shorter than the longest window of the policy and the tenants, 30d: what is forgotten cannot be counted',
    ],
  },
  {
    name: 'a margin that is none',
    yaml: 'limits: { margin: 2s }',
    says: ['sluice.yaml:1: limits.margin: expected at most 1s'],
  },
  {
    name: 'a folder of templates that is none',
    yaml: 'templates: sluice.yaml',
    says: ['sluice.yaml:1: templates: expected a folder; $cwd/sluice.yaml is none'],
  },
  {
    name: 'a level that does not exist',
    yaml: 'log: { level: verbose }',
    says: [
      'sluice.yaml:1: log.level: expected one of fatal, error, warn, info, debug, trace, silent; this is "verbose"',
    ],
  },
]

testRefusals(refusals)

test('the errors carry path, line and message', (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': 'log:\n  levle: info\n' })
  assert.throws(() => loadConfig({ env: {}, cwd }), {
    code: 'INVALID_CONFIG',
    errors: [
      {
        file: 'sluice.yaml',
        path: 'log.levle',
        line: 2,
        message: 'is not known here: did you mean "level"?',
      },
    ],
  })
})

test('a binary file is refused', (t) => {
  const cwd = temporaryFolder(t, {})
  assert.throws(() => loadConfig({ env: {}, cwd, path: process.execPath }), {
    code: 'INVALID_CONFIG',
    message: /is not UTF-8 text$|is larger than/,
  })
})

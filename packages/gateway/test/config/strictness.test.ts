import { type Refusal, rate, testRefusals } from './refusal.ts'

const refusals: readonly Refusal[] = [
  // YAML that means something else than it seems to, or costs more
  {
    name: 'a key that stands twice',
    yaml: 'store: sqlite:a\nstore: sqlite:b\n',
    says: ['sluice.yaml:2: is not valid YAML: Map keys must be unique'],
  },
  {
    name: 'a list that is not closed',
    yaml: 'intake: [\n',
    says: [
      'sluice.yaml:2: is not valid YAML: Flow sequence in block collection must be sufficiently indented and end with a ]',
    ],
  },
  {
    name: '__proto__',
    yaml: 'http:\n  __proto__: { port: 1 }',
    says: ['sluice.yaml:2: http: has the key __proto__, which is never one'],
  },
  {
    name: 'a key that is a number',
    yaml: 'tenants: { 007: { weight: 2 } }',
    says: ['sluice.yaml:1: tenants: has a key that is no text; write it in quotes: "007"'],
  },
  {
    name: 'an infinite number',
    yaml: 'http: { port: .inf }',
    says: ['sluice.yaml:1: http.port: is not a finite number'],
  },
  {
    name: 'a number that is none',
    yaml: 'http: { port: .nan }',
    says: ['sluice.yaml:1: http.port: is not a finite number'],
  },
  {
    name: 'NUL in a text',
    yaml: 'store: "sqlite:a\\0b"',
    says: ['sluice.yaml:1: store: holds NUL or half of a character'],
  },
  {
    name: 'a tag of its own',
    yaml: 'store: !secret x',
    says: ['sluice.yaml:1: is not valid YAML: Unresolved tag: !secret'],
  },
  {
    name: 'a second document',
    yaml: 'http: {}\n---\nhttp: {}\n',
    says: [
      'sluice.yaml:2: is not valid YAML: Source contains multiple documents; please use YAML.parseAllDocuments()',
    ],
  },
  {
    name: 'a bomb of aliases',
    yaml: `a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]`,
    says: ['sluice.yaml: its aliases unfold to more than a configuration may hold'],
  },
  {
    name: 'an alias of itself',
    yaml: 'http: &a { host: *a }',
    says: ['sluice.yaml:1: http.host: is an alias of what it is in'],
  },
  {
    name: 'bottomless nesting',
    yaml: `store: ${'['.repeat(50_000)}`,
    says: ['sluice.yaml: is nested too deeply'],
  },
  {
    name: 'deep nesting',
    yaml: `store: ${'['.repeat(100)}${']'.repeat(100)}`,
    says: ['sluice.yaml:1: store[0][0][0]: is nested deeper than 64'],
  },

  // variables
  {
    name: 'a variable that is no number',
    env: { SLUICE_HTTP_PORT: '80a' },
    says: ['SLUICE_HTTP_PORT: expected a whole number from 0 to 65535; this is "80a"'],
  },
  {
    name: 'a variable that is a wrong number',
    env: { SLUICE_HTTP_PORT: '70000' },
    says: ['SLUICE_HTTP_PORT: expected a whole number from 0 to 65535; this is 70000'],
  },
  {
    name: 'an address of a variable that others reach',
    env: { SLUICE_HTTP_HOST: '::' },
    says: [
      'SLUICE_HTTP_HOST: "::" is no loopback address: without keys for tokens the gateway serves this machine only; expected 127.0.0.1, ::1 or localhost, or keys under auth.jwt',
    ],
  },
  {
    name: 'a rate of nothing',
    env: { NOTIFY_RATE_LIMIT_PER_TENANT: '0' },
    says: [
      `NOTIFY_RATE_LIMIT_PER_TENANT: ${rate}; this is "0/min" (a rate of 0 would let nothing through, ever)`,
    ],
  },
  {
    name: 'a rate of less',
    env: { NOTIFY_RATE_LIMIT_PER_MODULE: '-5' },
    says: [`NOTIFY_RATE_LIMIT_PER_MODULE: ${rate}; this is "-5"`],
  },
  {
    name: 'engines of later in variables',
    env: { SLUICE_STORE: 'mysql://u:canary@h/d', SLUICE_STATE: 'redis:/h', SLUICE_QUEUE: 'amqp:/h' },
    says: [
      'SLUICE_STORE: expected sqlite:<path> or postgres://user@host/database',
      'SLUICE_STATE: expected memory, redis://user:password@host:6379/0 or redis-cluster://host1:6379,host2:6379',
      'SLUICE_QUEUE: expected embedded, or amqp://user:password@host1,host2:5672/vhost',
    ],
  },
  {
    name: 'limits of WebSockets in variables',
    env: { NOTIFY_WS_RATE_PER_TENANT: 'five', NOTIFY_WS_MAX_CONNECTIONS_PER_TENANT: '-1' },
    says: [
      'NOTIFY_WS_RATE_PER_TENANT: expected a rate such as 100/s, [100/s, 50000/h] or unlimited; this is "five"',
      'NOTIFY_WS_MAX_CONNECTIONS_PER_TENANT: expected a whole number from 0 to 1000000; this is "-1"',
    ],
  },
  {
    name: 'a variable that is misspelt',
    env: { SLUICE_HTTP_PROT: '80', NOTIFY_RATE_LIMIT_PER_TENNANT: '5' },
    says: [
      'SLUICE_HTTP_PROT: is not known: did you mean "SLUICE_HTTP_PORT"?',
      'NOTIFY_RATE_LIMIT_PER_TENNANT: is not known: did you mean "NOTIFY_RATE_LIMIT_PER_TENANT"?',
    ],
  },
  {
    name: 'a file that SLUICE_CONFIG names and that is not there',
    env: { SLUICE_CONFIG: 'none.yaml' },
    says: ['none.yaml: cannot be read (there is none)'],
  },

  // the policy, reported with the rest
  {
    name: 'mistakes of the file and of its policy, each with its own line',
    yaml: 'policy: p.yaml\nhttp: { port: x }',
    files: {
      'p.yaml': 'limits:\n  - { name: a, for: any, max: 5/day }\n  - name: a\n    for: any\n    max: 5/dya\n',
    },
    says: [
      `p.yaml:5: limits[1].max: '5/dya' is not a window such as 2/day or 100/30min: a whole count, a slash, a duration in ms s min h d day week month`,
      'sluice.yaml:2: http.port: expected a whole number from 0 to 65535; this is "x"',
    ],
  },
]

testRefusals(refusals)

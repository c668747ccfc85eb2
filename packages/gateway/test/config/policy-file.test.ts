import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { loadConfig } from '../../src/config/load.ts'
import { builtInPolicyFile, loadPolicy } from '../../src/config/policy-file.ts'
import { temporaryFolder } from './folder.ts'

test('without a file the built-in policy applies', (t) => {
  const cwd = temporaryFolder(t)
  const { file, builtIn, compiled } = loadPolicy({ cwd })
  assert.deepEqual([file, builtIn], [builtInPolicyFile, true])
  assert.equal(compiled.maxDelayMs, 7 * 86_400_000)
})

test('every mistake is reported with its line', (t) => {
  const cwd = temporaryFolder(t, {
    'policy.yaml': `# a comment
limits:
  - name: a
    for: { channel: emial }
    max: [2/day, 5/wek]
  - { name: b, for: any, max: 1/day, over: "digest:none" }
digests: []
quietHours:
  default:
    from: 22:00
    to: "8"
complaints: { warnAt: 0.5% }
`,
  })
  assert.throws(
    () => loadPolicy({ file: join(cwd, 'policy.yaml'), cwd }),
    (error: { code: string; errors: { path: string; line: number; file: string }[] }) => {
      assert.equal(error.code, 'INVALID_POLICY')
      assert.deepEqual(
        error.errors.map(({ file, line, path }) => `${file}:${line} ${path}`),
        [
          'policy.yaml:4 limits[0].for.channel',
          'policy.yaml:5 limits[0].max[1]',
          'policy.yaml:6 limits[1].over',
          'policy.yaml:11 quietHours.default.to',
          'policy.yaml:12 complaints.warnAt',
        ],
      )
      return true
    },
  )
})

test('times need no quotes: YAML 1.2 has no base 60', (t) => {
  const cwd = temporaryFolder(t, {
    'policy.yaml':
      'quietHours: { default: { from: 22:00, to: 08:00, channels: [sms] }, legal: [{ allowed: 08:00-21:00 }] }',
  })
  const { compiled } = loadPolicy({ file: join(cwd, 'policy.yaml'), cwd })
  const specs = compiled
    .quietFor({ channel: 'sms', category: 'x', priority: 'normal' }, {})
    .map(({ spec }) => `${spec.from}-${spec.to}`)
  assert.deepEqual(specs.sort(), ['21:00-08:00', '22:00-08:00'])
})

test('in an empty policy every section is off', (t) => {
  const cwd = temporaryFolder(t, { 'policy.yaml': '' })
  const { compiled } = loadPolicy({ file: join(cwd, 'policy.yaml'), cwd })
  assert.equal(compiled.deduplicationWindowMs, undefined)
  assert.equal(compiled.longestWindowMs, 0)
})

test('an invalid policy refuses a valid configuration, as INVALID_POLICY', (t) => {
  const cwd = temporaryFolder(t, { 'p.yaml': 'limits: {}', 'sluice.yaml': 'policy: p.yaml' })
  assert.throws(() => loadConfig({ env: {}, cwd }), {
    code: 'INVALID_POLICY',
    message: /^p\.yaml:1: limits: /,
  })
  assert.throws(() => loadConfig({ env: { SLUICE_POLICY: 'none.yaml' }, cwd }), {
    code: 'INVALID_CONFIG',
    message: 'SLUICE_POLICY: names a file that cannot be read (there is none): none.yaml',
  })
  const astray = temporaryFolder(t, { 'sluice.yaml': 'http: { port: 0 }\npolicy: none.yaml' })
  assert.throws(() => loadConfig({ env: {}, cwd: astray }), {
    code: 'INVALID_CONFIG',
    message: 'sluice.yaml:2: policy: names a file that cannot be read (there is none): none.yaml',
  })
})

test('notifications may not be forgotten while a repetition of them is a duplicate', (t) => {
  const policy = 'deduplication: { window: 12h }\nlimits: [{ name: all, for: any, max: 3/1h }]'
  const keptFor = (kept: string) =>
    loadConfig({
      env: {},
      cwd: temporaryFolder(t, {
        'p.yaml': policy,
        'sluice.yaml': `policy: p.yaml\nretention: { notifications: ${kept} }`,
      }),
    })
  assert.throws(
    () => keptFor('2h'),
    /retention.notifications: is shorter than the longest window of the policy and the tenants, 1d/,
  )
  assert.equal(keptFor('12h').policy.compiled.deduplicationWindowMs, 43_200_000)
})

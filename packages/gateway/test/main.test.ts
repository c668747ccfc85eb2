import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { commands } from '../src/main.ts'
import { sluice } from './cli/session.ts'
import { temporaryFolder } from './config/folder.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string
}

test('the version is that of the package', async () => {
  for (const args of [['--version'], ['-v'], ['-V'], ['version']])
    assert.deepEqual(await sluice(args), { code: 0, out: version, err: '' })
})

test('help lists every command; without a command it stands on standard error, and the exit code is 2', async () => {
  const asked = await sluice(['--help'])
  assert.equal(asked.code, 0)
  for (const [name, { summary }] of Object.entries(commands))
    assert.ok(asked.out.includes(`${name} `) && asked.out.includes(summary), name)
  assert.deepEqual(await sluice([]), { code: 2, out: '', err: asked.out })
})

test('an option that belongs to the configuration is answered with the place where it is set', async () => {
  const { code, err } = await sluice(['serve', '--port', '8081'])
  assert.equal(code, 2)
  assert.match(
    err,
    /^sluice: --port is no option: use http\.port of the configuration, or SLUICE_HTTP_PORT\n/,
  )
})

test('with --json an error is JSON on standard error', async () => {
  const { code, out, err } = await sluice(['pools', '--json', '--chanel', 'x'])
  assert.deepEqual([code, out], [2, ''])
  assert.deepEqual(Object.keys(JSON.parse(err).error), ['code', 'message', 'hint'])
  assert.equal(JSON.parse(err).error.code, 'BAD_USAGE')
})

test('a command that is misspelt is answered with the one that was meant', async () => {
  assert.deepEqual(await sluice(['chekc']), {
    code: 2,
    out: '',
    err: 'sluice: unknown command "chekc": did you mean "check"?\nSee: sluice --help',
  })
  assert.deepEqual(await sluice(['--verison']), {
    code: 2,
    out: '',
    err: 'sluice: unknown option "--verison"\nSee: sluice --help',
  })
  assert.match((await sluice(['__proto__'])).err, /unknown command/)
})

for (const name of [
  'serve',
  'check',
  'simulate',
  'advise',
  'explain',
  'recipient',
  'pools',
  'backlog',
  'top',
  'list',
  'tail',
  'send',
  'decide',
  'cancel',
  'job',
  'health',
  'dead-letters',
  'schema',
]) {
  test(`sluice ${name} --help tells what it takes, with examples`, async () => {
    const { code, out } = await sluice([name, '--help'])
    assert.equal(code, 0)
    assert.match(out, new RegExp(`^Usage: sluice ${name} `, 'm'))
    assert.match(out, new RegExp(`^Examples:\n {2}(\\w+=\\w+ )?sluice ${name}`, 'm'))
    assert.equal((await sluice(['help', name])).out, out)
  })
}

test('every command takes --json', async () => {
  for (const [name, { load }] of Object.entries(commands))
    assert.ok('json' in (await load()).form.options, name)
})

test('check prints what is in force, and as JSON too', async (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': 'http: { port: 4711 }' })
  const text = await sluice(['check'], { cwd })
  assert.equal(text.code, 0)
  assert.match(text.out, /^ {2}port: 4711$/m)
  assert.match(text.out, /marketing-email/)
  assert.match(text.out, /Configuration and policy are valid\.$/)
  const json = await sluice(['check', '--json'], { cwd })
  const { valid, config, policy } = JSON.parse(json.out)
  assert.deepEqual(
    [json.code, valid, config.http.port, policy.builtIn, policy.document.maxDelay],
    [0, true, 4711, true, '7d'],
  )
})

test('check refuses with exit code 2, each mistake on its line, and as JSON too', async (t) => {
  const cwd = temporaryFolder(t, { 'bad.yaml': 'http:\n  prot: 1\nlog: { level: x }' })
  const text = await sluice(['check', '--config', 'bad.yaml'], { cwd })
  assert.deepEqual(text, {
    code: 2,
    out: '',
    err: `sluice: the configuration is not valid
  bad.yaml:2: http.prot: is not known here: did you mean "port"?
  bad.yaml:3: log.level: expected one of fatal, error, warn, info, debug, trace, silent; this is "x"`,
  })
  const json = await sluice(['check', '--config', 'bad.yaml', '--json'], { cwd })
  const { valid, code, errors } = JSON.parse(json.out)
  assert.deepEqual(
    [json.code, valid, code, errors.length, errors[0].line],
    [2, false, 'INVALID_CONFIG', 2, 2],
  )
})

test('check refuses what serve would: a template that is none, and a digest without a template', async (t) => {
  const digest = '{ name: news, for: any, window: 1h, template: order-news }'
  const cwd = temporaryFolder(t, {
    'sluice.yaml': 'templates: ./templates\npolicy: ./policy.yaml\n',
    'policy.yaml': `digests: [${digest}]`,
  })
  const template = (file: string, text: string): void => {
    mkdirSync(join(cwd, 'templates/order-news'), { recursive: true })
    writeFileSync(join(cwd, 'templates/order-news', file), text)
  }
  mkdirSync(join(cwd, 'templates'))
  for (const command of ['check', 'serve']) {
    const missing = await sluice([command], { cwd })
    assert.equal(missing.code, 2, missing.out)
    assert.match(missing.err, /policy\.yaml: digests\[0\]\.template: there is no template "order-news"/)
  }
  const json = await sluice(['check', '--json'], { cwd })
  assert.deepEqual(JSON.parse(json.out).errors[0].path, 'digests[0].template')
  template('text.liquid', '{{ data.totalCount }} news')
  assert.equal((await sluice(['check'], { cwd })).code, 0)
  template('sms.text.liquid', '{% if %}')
  const wrong = await sluice(['check'], { cwd })
  assert.equal(wrong.code, 2)
  assert.match(wrong.err, /sms\.text\.liquid:1 is not valid Liquid/)
})

test('serve refuses a wrong configuration and a part of the roles with exit code 2', async (t) => {
  const cwd = temporaryFolder(t, { 'bad.yaml': 'queue: amqp:/h' })
  const bad = await sluice(['serve', '--config', 'bad.yaml'], { cwd })
  assert.deepEqual([bad.code, bad.out], [2, ''])
  assert.match(bad.err, /bad\.yaml:1: queue: expected embedded, or amqp:/)
  assert.match(
    (await sluice(['serve', '--roles', 'http'])).err,
    /a gateway without websocket, intake, schedule, dispatch is not carried by this version yet/,
  )
  assert.match((await sluice(['serve', '--roles', 'htpp'])).err, /"htpp" is no role: did you mean "http"\?/)
})

test('schema prints a schema that says what it is', async () => {
  const { code, out } = await sluice(['schema', 'policy'])
  assert.equal(code, 0)
  assert.equal(JSON.parse(out).title, 'Policy of Sluice')
  assert.match((await sluice(['schema', 'polcy'])).err, /did you mean "policy"\?/)
})

/**
 * What a user gets: both packages built, packed and installed into an empty folder, then used from there, where the
 * checkout is out of sight.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { packages, packingFaults } from '../build.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const home = mkdtempSync(join(tmpdir(), 'sluice-install-'))
after(() => rmSync(home, { recursive: true, force: true }))

function run(command: string, args: readonly string[], cwd = home): string {
  // npm hands the workspace's settings down to what it starts; an empty folder has none of them.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(([key]) => !/^(npm_|NODE_TEST)/.test(key)),
  )
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    env,
    encoding: 'utf8',
    timeout: 240_000,
  })
  assert.equal(status, 0, `${command} ${args.join(' ')}\n${error?.message ?? ''}${stdout}${stderr}`)
  return stdout
}

before(() => {
  for (const name of packages) {
    // As in a fresh clone: npm itself builds what it packs.
    rmSync(join(root, 'packages', name, 'dist'), { recursive: true, force: true })
    run('npm', ['pack', '--pack-destination', home], join(root, 'packages', name))
  }
  writeFileSync(join(home, 'package.json'), '{ "private": true, "type": "module" }')
  const tarballs = readdirSync(home).filter((name) => name.endsWith('.tgz'))
  assert.equal(tarballs.length, packages.length)
  run('npm', [
    'install',
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
    ...tarballs.map((name) => `./${name}`),
  ])
})

for (const name of packages) {
  test(`the package ${name} holds what its package.json promises, and nothing else`, () => {
    assert.deepEqual(packingFaults(join(root, 'packages', name)), [])
  })
}

test('the library stays as small as it has become', () => {
  // docs/decisions/0010-small-package.md says what the bytes are. Two kilobytes came with the suite of retention, errors
  // that tell outages from faults, and the queue by which subjects go.
  const tarball = readdirSync(home).find((name) => /^sluice-limits-.*\.tgz$/.test(name))!
  const { size } = statSync(join(home, tarball))
  assert.ok(size <= 75_000, `${size} bytes packed`)
})

/** The library alone, installed without a network: it has no dependencies. */
const alone = join(home, 'alone')

before(() => {
  mkdirSync(alone)
  writeFileSync(join(alone, 'package.json'), '{ "private": true }')
  const tarball = readdirSync(home).find((name) => /^sluice-limits-.*\.tgz$/.test(name))!
  run('npm', ['install', '--offline', '--no-audit', '--no-fund', join(home, tarball)], alone)
})

const program = `
  const allowed = []
  const limits = createLimits({ store: memoryStore() })
  for (let i = 0; i < 3; i++) allowed.push((await limits.take('user:42', [limit('two', '2/day')])).allowed)
  console.log(JSON.stringify(allowed))`
const esm = `import { createLimits, limit, memoryStore } from '@sluice/limits'
  import { createExpressLimiter } from '@sluice/limits/express'
  import { createFastifyLimiter } from '@sluice/limits/fastify'
  import { createHonoLimiter } from '@sluice/limits/hono'
  for (const create of [createExpressLimiter, createFastifyLimiter, createHonoLimiter])
    create({ limits: createLimits(), rules: [limit('two', '2/day')] })
  ${program}`

test('the installed library has no dependencies', () => {
  const installed = readdirSync(join(alone, 'node_modules')).filter((name) => !name.startsWith('.'))
  assert.deepEqual(installed, ['@sluice'])
})

test('the installed library limits, in plain JavaScript', () => {
  assert.equal(run(process.execPath, ['--input-type=module', '-e', esm], alone).trim(), '[true,true,false]')
})

test('the installed library can be required from CommonJS', () => {
  const cjs = `const { createLimits, limit, memoryStore } = require('@sluice/limits')
    ;(async () => {${program}})()`
  assert.equal(run(process.execPath, ['--input-type=commonjs', '-e', cjs], alone).trim(), '[true,true,false]')
})

const node20 = (process.env.PATH ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'node'))
  .find((node) => /^v20\./.test(spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout ?? ''))

test('the installed library runs on Node 20', { skip: node20 === undefined && 'there is none here' }, () => {
  assert.equal(run(node20!, ['--input-type=module', '-e', esm], alone).trim(), '[true,true,false]')
})

test('the installed suite of the stores passes on the installed memory store', () => {
  const suite = `import { memoryStore } from '@sluice/limits'
import { exerciseStore } from '@sluice/limits/conformance'
exerciseStore((world) => ({ store: memoryStore(world) }), { name: 'memory', operations: 2_000 })`
  writeFileSync(join(alone, 'suite.test.mjs'), suite)
  assert.match(run(process.execPath, ['--test', 'suite.test.mjs'], alone), /pass [1-9]\d+\n/)
})

for (const [module, resolution] of [
  ['nodenext', 'nodenext'],
  ['esnext', 'bundler'],
] as const) {
  test(`the installed library brings its types, with moduleResolution ${resolution}`, () => {
    const use = `import { createLimits, limit, memoryStore } from '@sluice/limits'
import { createExpressLimiter, type Refusal } from '@sluice/limits/express'
import { createFastifyLimiter } from '@sluice/limits/fastify'
import { createHonoLimiter } from '@sluice/limits/hono'
const limits = createLimits({ store: memoryStore() })
const rules = [limit('two', '2/day')]
const decision = await limits.take('user:42', rules)
export const wait: number = decision.retryAfterMs
// @ts-expect-error: an answer is no string, so the types are known and not \`any\`
export const text: string = decision.allowed
const onRefused = (refusal: Refusal): void => console.log(refusal.status)
export const doors = [createExpressLimiter({ limits, rules, onRefused }), createFastifyLimiter({ limits, rules })]
// @ts-expect-error: a key is 'ip', 'user' or a function
createHonoLimiter({ limits, rules, key: 5 })
`
    writeFileSync(join(alone, 'use.mts'), use)
    const target = ['--module', module, '--moduleResolution', resolution, '--target', 'es2022']
    const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', 'false', '--types', '']
    run(join(root, 'node_modules/.bin/tsc'), [...options, ...target, 'use.mts'], alone)
  })
}

test('publint and attw find nothing in the library', () => {
  const folder = join(root, 'packages/limits')
  assert.match(run(join(root, 'node_modules/.bin/publint'), ['--strict'], folder), /All good/)
  // ESM only, and package.json beside it says so: .attw.json leaves out what only CommonJS would need.
  run(join(root, 'node_modules/.bin/attw'), ['--pack', '.'], folder)
})

test('the installed gateway tells how it is used', () => {
  const help = run('npx', ['--no-install', 'sluice', '--help'])
  for (const command of ['serve', 'check', 'simulate']) assert.match(help, new RegExp(`\\b${command}\\b`))
})

test('the installed gateway finds its policy, templates and migrations', () => {
  assert.match(run('npx', ['--no-install', 'sluice', 'check', '--json']), /"/)
  const installed = join(home, 'node_modules/sluice')
  assert.ok(existsSync(join(installed, 'policy/default.yaml')))
  const sources = join(root, 'packages/gateway/src')
  const assets = readdirSync(sources, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.(sql|lua|html)$/.test(file),
  )
  for (const asset of assets) assert.ok(existsSync(join(installed, 'dist', asset)), `${asset} is published`)
})

test('what package.json promises and is not there is found', () => {
  const folder = join(home, 'hollow')
  mkdirSync(join(folder, 'src'), { recursive: true })
  cpSync(join(root, 'LICENSE'), join(folder, 'LICENSE'))
  writeFileSync(join(folder, 'src/main.ts'), '')
  const manifest = {
    name: 'hollow',
    version: '1.0.0',
    files: ['src', 'dist'],
    exports: { '.': './dist/index.js' },
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  assert.deepEqual(packingFaults(folder), [
    'dist/index.js is promised by package.json but not packed',
    '"files" names dist, but there is nothing to pack',
    'src/main.ts should not be published',
  ])
})

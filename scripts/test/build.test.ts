/**
 * The packages as a user gets them: both packages built, packed and installed into an empty folder, then used from there, where the
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
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { rollup } from '@rollup/wasm-node'
import { build, type Packed, packages, packingFaults } from '../build/main.ts'
import { stage, withAbsoluteLinks } from '../build/publish.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** Where `npm publish` would run. */
const published = (name: string): string => join(root, 'node_modules/.cache/publish', name)
/** Bytes of the tarball. */
const packedMax = 135_000
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

/** The report of `npm pack`, in the order of the packages. */
let packs: readonly Packed[] = []

before(() => {
  // A run has checked the types before its tests.
  for (const name of packages) build(name, ['--noCheck'])
  const staged = packages.map((name) => stage(root, name))
  packs = Object.values(JSON.parse(run('npm', ['pack', '--json', '--pack-destination', home, ...staged])))
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

for (const [index, name] of packages.entries()) {
  test(`the package ${name} holds what its package.json promises, and nothing else`, () => {
    assert.deepEqual(packingFaults(published(name), packs[index]!), [])
  })
}

test('the packed library does not grow without a reason', () => {
  // docs/decisions/0010-small-package.md says what the bytes are.
  const { size } = statSync(join(home, tarballOf()))
  assert.ok(size <= packedMax, `${size} bytes packed`)
})

const tarballOf = (): string => readdirSync(home).find((name) => /^sluice-limits-\d.*\.tgz$/.test(name))!

/** The library alone, installed without a network: it has no dependencies. */
const alone = join(home, 'alone')

before(() => {
  mkdirSync(alone)
  writeFileSync(join(alone, 'package.json'), '{ "private": true }')
  const tarball = tarballOf()
  const suite = readdirSync(home).find((name) => /^sluice-limits-conformance-.*\.tgz$/.test(name))!
  // With legacy peers npm adds nothing for the suite beside it, so that the library is seen to have no dependencies.
  const options = ['--offline', '--no-audit', '--no-fund', '--legacy-peer-deps']
  run('npm', ['install', ...options, join(home, tarball), join(home, suite)], alone)
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

test('the installed library can be required from CommonJS, where ES modules cannot be required too, as in Jest', () => {
  const cjs = `const { createLimits, limit, memoryStore, LimitsError } = require('@sluice/limits')
    const { createExpressLimiter } = require('@sluice/limits/express')
    try { createExpressLimiter({}) } catch (error) { if (!(error instanceof LimitsError)) throw error }
    ;(async () => {${program}})()`
  const args = ['--no-experimental-require-module', '--input-type=commonjs', '-e', cjs]
  assert.equal(run(process.execPath, args, alone).trim(), '[true,true,false]')
})

test('an error that nobody catches prints a screen, names itself, and no line above 120 characters', () => {
  const program = `import { limit } from '@sluice/limits'; limit('two', '2/fortnight')`
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: alone,
    encoding: 'utf8',
  })
  assert.equal(status, 1)
  assert.match(stderr, /^(LimitsError|.* \[LimitsError\]).*2\/fortnight/m)
  assert.match(stderr, /at limit /, 'functions keep their names')
  assert.ok(stderr.length < 3_000, `${stderr.length} characters`)
  for (const file of filesOf(join(alone, 'node_modules/@sluice/limits/dist')))
    for (const line of readFileSync(file, 'utf8').split('\n'))
      if (/js$/.test(file)) assert.ok(line.length <= 120, `${file}: ${line}`)
})

test('what is published says nothing of the checkout, and its links lead into the repository', () => {
  const folder = join(alone, 'node_modules/@sluice/limits')
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  for (const field of ['scripts', 'devDependencies', 'private'])
    assert.equal(manifest[field], undefined, field)
  assert.doesNotMatch(JSON.stringify(manifest), /sluice-source|src\//)
  for (const field of ['repository', 'homepage', 'bugs']) assert.ok(manifest[field], field)
  const links = [...readFileSync(join(folder, 'README.md'), 'utf8').matchAll(/\]\(([^)]+)\)/g)]
  assert.deepEqual(
    links.filter(([, target]) => !/^(https:|#)/.test(target!)),
    [],
  )
  assert.equal(
    withAbsoluteLinks('[a](../../b.md#c) [d](#e) [f](https://g.h)', 'packages/limits', 'https://w'),
    '[a](https://w/blob/main/b.md#c) [d](#e) [f](https://g.h)',
  )
})

function filesOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((file) => join(folder, file))
    .filter((file) => statSync(file).isFile())
}

/** The maximum share of the library in a user's bundle, kB (1,000 bytes) minified and gzipped, by the import from it. */
const bundleBounds = [
  { what: 'memory limiter', imports: 'createLimits, limit, memoryStore', max: 11 },
  { what: 'Redis limiter', imports: 'createLimits, limit, redisStore', max: 23 },
  { what: 'tokenBucket', imports: 'tokenBucket', max: 3 },
  { what: 'isQuiet', imports: 'isQuiet', max: 2 },
]

for (const { what, imports, max } of bundleBounds) {
  for (const [bundler, bundled] of [
    ['esbuild', bundledByEsbuild],
    ['rollup', bundledByRollup],
  ] as const) {
    test(`a bundle of the ${what} made by ${bundler} has at most ${max} kB`, async (t) => {
      const entry = join(alone, `${what.replaceAll(' ', '-')}.mjs`)
      writeFileSync(entry, `export { ${imports} } from '@sluice/limits'`)
      const { length } = gzipSync(await bundled(entry), { level: 9 })
      t.diagnostic(`${what} by ${bundler}: ${(length / 1_000).toFixed(2)} kB, the goal is ${max}`)
      // docs/decisions/0010-small-package.md says where the bytes are.
      assert.ok(length <= max * 1_000, `${length} bytes`)
    })
  }
}

function bundledByEsbuild(entry: string): string {
  const options = ['--bundle', '--minify', '--format=esm', '--platform=node']
  return run(join(root, 'node_modules/.bin/esbuild'), [entry, ...options], alone)
}

/** As rollup does with the plugin that finds packages, which reads there that no module is needed for its effects. */
async function bundledByRollup(entry: string): Promise<string> {
  const library = join(alone, 'node_modules/@sluice/limits')
  assert.equal(JSON.parse(readFileSync(join(library, 'package.json'), 'utf8')).sideEffects, false)
  const [direct, made] = [entry.replace('.mjs', '.entry.mjs'), entry.replace('.mjs', '.rollup.mjs')]
  const names = readFileSync(entry, 'utf8')
  writeFileSync(direct, names.replace('@sluice/limits', join(library, 'dist/index.js')))
  const bundle = await rollup({
    input: direct,
    treeshake: { moduleSideEffects: false },
    external: ['node:buffer'],
    logLevel: 'silent',
  })
  await bundle.write({ file: made })
  return run(join(root, 'node_modules/.bin/esbuild'), [made, '--minify', '--format=esm'], alone)
}

const node20 = (process.env.PATH ?? '')
  .split(delimiter)
  .map((folder) => join(folder, 'node'))
  .find((node) => /^v20\./.test(spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout ?? ''))

test('the installed library runs on Node 20', { skip: node20 === undefined && 'there is none here' }, () => {
  assert.equal(run(node20!, ['--input-type=module', '-e', esm], alone).trim(), '[true,true,false]')
})

test('the installed suite of the stores passes on the installed memory store', () => {
  const suite = `import { memoryStore } from '@sluice/limits'
import { exerciseStore } from '@sluice/limits-conformance'
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
  const folder = published('limits')
  assert.match(run(join(root, 'node_modules/.bin/publint'), ['--strict'], folder), /All good/)
  run(join(root, 'node_modules/.bin/attw'), [join(home, tarballOf()), '--profile', 'node16'])
})

test('the installed gateway tells how it is used', () => {
  const help = run('npx', ['--no-install', 'sluice', '--help'])
  for (const command of ['serve', 'check', 'simulate']) assert.match(help, new RegExp(`\\b${command}\\b`))
})

test('the installed gateway finds its policy, templates and migrations', () => {
  assert.match(run(join(home, 'node_modules/.bin/sluice'), ['check', '--json']), /"/)
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

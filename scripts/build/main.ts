/**
 * `npm run build`: what is published. `tsc` turns the gateway's `src/` into `dist/`, and what is no TypeScript is copied
 * beside it; the library is bundled, because it promises to be small (build/bundle.ts). Then a dry run of `npm pack` is
 * held against what package.json promises. In the checkout nothing uses `dist/`: there the source runs as it is. With
 * names it only builds those: so npm does when it installs, for the library, so that `import '@sluice/limits'` works in a
 * checkout too. What npm gets is laid out apart (build/publish.ts): `npm publish <that folder>`.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { misused, readArguments } from '../runner/arguments.ts'
import { bundle } from './bundle.ts'
import { stage } from './publish.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** In the order in which they need each other. */
export const packages = ['limits', 'limits-conformance', 'gateway'] as const

const usage = `Usage: npm run build -- [package…]
  Builds the packages named (${packages.join(', ')}); without a name all, and holds what would be packed against package.json.`

/** Published as few small files; the others as the compiler emits them, one for one. */
const bundled = new Set<string>(['limits'])

/**
 * Builds one package.
 * @param options of the compiler besides: `--noCheck` where the types were checked before, which halves the time
 * @throws {Error} with the compiler's words
 */
export function build(name: string, options: readonly string[] = []): void {
  const folder = join(root, 'packages', name)
  // Built elsewhere and moved in whole, so that a failed build leaves the last good one.
  const fresh = join(root, 'node_modules/.cache', `build-${name}-${process.pid}`)
  rmSync(fresh, { recursive: true, force: true })
  mkdirSync(fresh, { recursive: true })
  try {
    if (bundled.has(name)) {
      const declared = join(fresh, 'declared')
      compile(name, declared, ['--emitDeclarationOnly', ...options])
      bundle(root, folder, declared, fresh)
      rmSync(declared, { recursive: true })
    } else {
      compile(name, fresh, options)
      copyAssets(join(folder, 'src'), fresh)
    }
    refuseSourceImports(fresh)
    rmSync(join(folder, 'dist'), { recursive: true, force: true })
    renameSync(fresh, join(folder, 'dist'))
  } finally {
    rmSync(fresh, { recursive: true, force: true })
  }
}

function compile(name: string, outDir: string, options: readonly string[] = []): void {
  const args = ['-p', join(root, 'scripts/build', `${name}.tsconfig.json`), '--outDir', outDir, ...options]
  const { status, stdout, error } = spawnSync(join(root, 'node_modules/.bin/tsc'), args, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`tsc could not build packages/${name}:\n${error?.message ?? stdout}`)
}

function copyAssets(from: string, to: string): void {
  for (const entry of readdirSync(from, { withFileTypes: true, recursive: true })) {
    if (!entry.isFile() || /\.tsx?$/.test(entry.name)) continue
    const target = join(to, entry.parentPath.slice(from.length), entry.name)
    mkdirSync(dirname(target), { recursive: true })
    cpSync(join(entry.parentPath, entry.name), target)
  }
}

/** The compiler rewrites `./x.ts` in imports only; an address such as `new URL('./x.ts', …)` would lead nowhere. */
function refuseSourceImports(dist: string): void {
  for (const entry of readdirSync(dist, { withFileTypes: true, recursive: true })) {
    if (!entry.name.endsWith('.js')) continue
    const file = join(entry.parentPath, entry.name)
    const found = /['"`]\.{1,2}\/[^'"`\n]*\.ts['"`]/.exec(readFileSync(file, 'utf8'))
    if (found)
      throw new Error(`${file.slice(dist.length + 1)} names the source ${found[0]}, which is not published`)
  }
}

interface Manifest {
  readonly files?: readonly string[]
  readonly bin?: Readonly<Record<string, string>>
  readonly exports?: unknown
}

/**
 * Differences between package.json and the packed files: missing and surplus ones.
 * @param pack npm's report, of who has packed the folder already
 */
export function packingFaults(folder: string, pack = packed(folder)): string[] {
  const manifest: Manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const files = pack.files.map(({ path }) => path)
  const promised = [...Object.values(manifest.bin ?? {}), ...publishedTargets(manifest.exports)]
  const lacks = promised
    .map((path) => path.replace(/^\.\//, ''))
    .filter((path) => !files.some((file) => fits(path, file)))
    .map((path) => `${path} is promised by package.json but not packed`)
  const empty = (manifest.files ?? [])
    .filter((path) => !files.some((file) => file === path || file.startsWith(`${path}/`)))
    .map((path) => `"files" names ${path}, but there is nothing to pack`)
  const strays = files
    .filter((file) => /^(src|test)\/|\.test\.|tsconfig|\.env/.test(file))
    .map((file) => `${file} should not be published`)
  return [...lacks, ...empty, ...strays]
}

/** Every target in `exports` except those of the condition for development. */
function publishedTargets(exports: unknown): string[] {
  if (typeof exports === 'string') return [exports]
  if (typeof exports !== 'object' || exports === null) return []
  return Object.entries(exports)
    .filter(([condition]) => condition !== 'sluice-source')
    .flatMap(([, target]) => publishedTargets(target))
}

function fits(path: string, file: string): boolean {
  const [start = '', end] = path.split('*')
  return end === undefined ? file === path : file.startsWith(start) && file.endsWith(end)
}

/** The report of npm on a package that it packs. */
export interface Packed {
  /** The size of the tarball, bytes. */
  readonly size: number
  readonly files: readonly { readonly path: string }[]
}

function packed(folder: string): Packed {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts']
  const { status, stdout, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' })
  if (status !== 0) throw new Error(`npm pack: ${stderr}`)
  const [report] = Object.values(JSON.parse(stdout)) as Packed[]
  return report!
}

if (basename(process.argv[1] ?? '') === 'build.ts') {
  const { positionals: named } = readArguments(usage, {}, { allowPositionals: true })
  for (const name of named)
    if (!packages.some((each) => each === name)) misused(usage, `there is no package "${name}"`)
  try {
    for (const name of named.length > 0 ? named : packages) build(name)
    for (const name of named.length > 0 ? [] : packages) {
      const staged = stage(root, name)
      const faults = packingFaults(staged)
      const kB = (packed(staged).size / 1_000).toFixed(1)
      console.log(
        `${faults.length === 0 ? '✔' : '✖'} packages/${name}, ${kB} kB packed, laid out in ${staged}`,
      )
      for (const fault of faults) console.error(`    ${fault}`)
      if (faults.length > 0) process.exitCode = 1
    }
  } catch (error) {
    console.error(`✖ ${(error as Error).message}`)
    process.exitCode = 1
  }
}

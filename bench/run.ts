/**
 * The door of the benchmarks: runs those that are named (else all that the page shows), each in a process of its own,
 * shows what came out, and writes docs/reference/benchmarks.md from everything on record.
 *
 *     npm run bench -- --help
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { columns } from '../packages/gateway/src/cli/command.ts'
import { didYouMean } from '../packages/gateway/src/config/suggestion.ts'
import { misused } from '../scripts/runner/arguments.ts'
import { benchmarks, catalogue, type Name, optionLines, options, studies } from './catalogue.ts'
import { median, meetsGoal, type Result, ratioOf } from './figures.ts'
import { writePage } from './page.ts'

const here = import.meta.dirname
const inOrder = Object.keys(benchmarks) as (keyof typeof benchmarks)[]
const isKnown = (name: string): name is Name => Object.hasOwn(catalogue, name)

function usageOf(name: Name): string {
  const taken = optionLines([name], 1)
  return [
    `Usage: npm run bench -- ${name}${taken.length > 0 ? ' [options]' : ', which takes no options'}`,
    `  ${catalogue[name].what}`,
    ...(taken.length > 0 ? ['', 'Options (the default in brackets):', ...taken] : []),
  ].join('\n')
}

function usage(): string {
  const list = (those: typeof benchmarks | typeof studies) =>
    columns(Object.entries(those).map(([name, { what }]) => [name, what]))
  return [
    'Usage: npm run bench -- [name…] [options]',
    '',
    'Benchmarks, which the page shows; all of them, for many minutes, where none is named:',
    ...list(benchmarks),
    '',
    'Studies of one part, which only print; run by name:',
    ...list(studies),
    '',
    'page writes docs/reference/benchmarks.md from what is on record and measures nothing.',
    '',
    'Options that several of them take (the defaults in brackets):',
    ...optionLines([...inOrder, ...(Object.keys(studies) as Name[])], 4),
    `  ${'--help'.padEnd(22)} this; after a name, all options of that one`,
  ].join('\n')
}

function installRivals(): void {
  const { dependencies } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'))
  if (Object.keys(dependencies).every((name) => existsSync(join(here, 'node_modules', name)))) return
  console.log('installing what ours is compared with (bench/package.json)')
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], {
    cwd: here,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  })
  if (status !== 0) throw new Error('npm ci in bench/ failed')
}

/** Shows the record of the run that began at `since`, epoch ms; a run beside another commit keeps none. */
function show(name: string, since: number): void {
  const file = join(here, 'results', `${name}.json`)
  if (!existsSync(file) || statSync(file).mtimeMs < since) {
    console.log('  this run keeps no record: the lines above are all that it measured')
    return
  }
  const { comparisons } = JSON.parse(readFileSync(file, 'utf8')) as Result
  for (const comparison of comparisons) {
    const { what, unit, ours, against } = comparison
    const ratio = ratioOf(comparison)
    const beside =
      against === undefined
        ? ''
        : ` · ${against.name} ${median(against.figures).toFixed(1)} · ratio ${ratio!.toFixed(2)}`
    const met = meetsGoal(comparison)
    const goal =
      met === undefined ? '' : ` · goal ${JSON.stringify(comparison.goal)} ${met ? 'met' : 'NOT met'}`
    console.log(`  ${what}: ${median(ours).toFixed(1)} ${unit}${beside}${goal}`)
  }
}

function run(name: Name, passed: readonly string[]): boolean {
  console.log(`\n${name}`)
  const begun = Date.now()
  if (catalogue[name].rivals) installRivals()
  const flags = ['--conditions=sluice-source', '--disable-warning=ExperimentalWarning']
  const { status } = spawnSync(process.execPath, [...flags, join(here, `${name}.ts`), ...passed], {
    stdio: 'inherit',
  })
  if (status === 0 && Object.hasOwn(benchmarks, name)) show(name, begun)
  if (status !== 0) console.error(`${name} failed`)
  return status === 0
}

/** The names before the first option, and the options; what does not exist ends the process. */
function readArguments(args: readonly string[]): {
  readonly names: readonly Name[]
  readonly passed: string[]
} {
  const first = args.findIndex((arg) => arg.startsWith('-'))
  const named = first < 0 ? args : args.slice(0, first)
  const passed = first < 0 ? [] : args.slice(first)
  for (const name of named)
    if (!isKnown(name) && name !== 'page') {
      const meant = didYouMean(name, Object.keys(catalogue))
      misused(usage(), `there is no benchmark called ${name}${meant}`)
    }
  const names = named.filter(isKnown)
  if (passed.includes('--help') || passed.includes('-h')) {
    console.log(names.length > 0 ? names.map(usageOf).join('\n\n') : usage())
    process.exit(0)
  }
  const chosen = named.length > 0 ? names : inOrder
  for (const name of chosen)
    try {
      options(name, passed)
    } catch (error) {
      misused(usageOf(name), `${name}: ${(error as Error).message}`)
    }
  return { names: chosen, passed }
}

const { names, passed } = readArguments(process.argv.slice(2))
const failed = names.filter((name) => !run(name, passed))
writePage()
process.exitCode = failed.length > 0 ? 1 : 0

/**
 * The door of the benchmarks: runs those that are named (else all), each in a process of its own, shows what came
 * out, and writes docs/reference/benchmarks.md from everything on record.
 *
 *     npm run bench [-- name…] [-- --rounds 5] [--list]
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { median, meetsGoal, type Result, ratioOf } from './figures.ts'
import { writePage } from './page.ts'

/** Those that the page shows, in the order of their length. */
const benchmarks = [
  'limiter-memory',
  'limits',
  'accept-http',
  'accept-batch',
  'end-to-end',
  'scheduled',
  'fairness',
]
/** Studies of one part, which print their figures; run by name. */
const studies = [
  'http-route',
  'store',
  'store-thread',
  'store-full',
  'quiet-hours',
  'line',
  'websocket',
  'dispatch',
  'threads',
]
/** What these are compared with is no dependency of the project. */
const withRivals = new Set(['limiter-memory', 'limits', 'end-to-end'])

const here = import.meta.dirname
const known = [...benchmarks, ...studies].filter((name) => existsSync(join(here, `${name}.ts`)))
const args = process.argv.slice(2).filter((arg) => arg !== '--')
const firstOption = args.findIndex((arg) => arg.startsWith('--'))
const names = firstOption < 0 ? args : args.slice(0, firstOption)
const passed = firstOption < 0 ? [] : args.slice(firstOption)

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

function show(name: string): void {
  const file = join(here, 'results', `${name}.json`)
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

function run(name: string): boolean {
  console.log(`\n${name}`)
  if (withRivals.has(name)) installRivals()
  const flags = ['--conditions=sluice-source', '--disable-warning=ExperimentalWarning']
  const { status } = spawnSync(process.execPath, [...flags, join(here, `${name}.ts`), ...passed], {
    stdio: 'inherit',
  })
  if (status === 0 && benchmarks.includes(name)) show(name)
  if (status !== 0) console.error(`${name} failed`)
  return status === 0
}

const unknown = names.filter((name) => !known.includes(name) && name !== 'page')
if (passed.includes('--list') || unknown.length > 0) {
  if (unknown.length > 0) console.error(`there is no benchmark called ${unknown.join(', ')}`)
  console.log(
    `benchmarks: ${benchmarks.join(' ')}\nstudies:    ${studies.join(' ')}\npage        only writes the page`,
  )
  process.exitCode = unknown.length > 0 ? 2 : 0
} else {
  const chosen = (names.length > 0 ? names : benchmarks).filter((name) => name !== 'page')
  const failed = chosen.filter((name) => !run(name))
  writePage()
  process.exitCode = failed.length > 0 ? 1 : 0
}

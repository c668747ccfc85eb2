/**
 * `npm test`: everything that has to hold, in the order in which it is cheapest to learn that it does not: types,
 * style, structure, then the tests on real engines. The last line is the sum, each check counted as one test.
 */
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { engines } from '../services/engines.ts'
import { EngineMissing } from '../services/install.ts'
import { isAtHand } from '../services/needs.ts'
import { type Service, stopOrphans } from '../services/service.ts'
import { describe, tidy } from '../tidy/main.ts'
import { readTree } from '../tidy/tree.ts'
import { misused, readArguments } from './arguments.ts'
import { choose } from './choice.ts'
import { runFiles } from './files.ts'
import { add, createTally, say, seconds, type Tally } from './tally.ts'

const usage = `Usage: npm test -- [options]
  --only <part of a path>   only test files with this in their path, without the checks before them; repeatable
  --unit                    only what needs no engine
  --seed <number>           the seed of the random tests
  --keep-going              run the tests although a check failed`

const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
const strict = Boolean(process.env.CI)
const print = (line: string) => console.log(line)
const sum = createTally()
const times: string[] = []
const interrupted = new AbortController()

/** One named part of the run; its time is printed, its counts go into the sum. */
async function phase(name: string, work: () => Promise<Tally>): Promise<Tally> {
  print(`\n── ${name}`)
  const startedMs = performance.now()
  const tally = await work()
  const took = seconds(startedMs, performance.now())
  print(`── ${name}: ${say(tally)}, ${took}`)
  times.push(`${name} ${took}`)
  add(sum, tally)
  return tally
}

async function main(): Promise<void> {
  const { values } = readArguments(usage, {
    only: { type: 'string', multiple: true, default: [] as string[] },
    unit: { type: 'boolean', default: false },
    seed: { type: 'string' },
    'keep-going': { type: 'boolean', default: false },
  })
  if (values.seed !== undefined) process.env.SLUICE_SEED = values.seed

  const tree = readTree(root)
  const choice = choose(tree, values)
  const files = [...choice.beside, ...choice.crash, ...choice.alone]
  if (files.length === 0) misused(usage, `no test file has ${values.only.join(' or ')} in its path`)

  if (values.only.length === 0) {
    await checks()
    if (sum.failed > 0 && !values['keep-going']) {
      return print('\nThe tests did not run: mend the checks above first, or add "-- --keep-going".')
    }
  }
  const started: Service[] = []
  const run = { root, strict, print, signal: interrupted.signal }
  if (choice.engines.length > 0) await phase('engines', () => startEngines(choice.engines, started))
  try {
    if (choice.beside.length > 0)
      await phase('tests', () => runFiles({ ...run, files: choice.beside, concurrency }))
    if (choice.crash.length > 0)
      await phase('crash tests', () => runFiles({ ...run, files: choice.crash, concurrency: 2 }))
    if (choice.alone.length > 0)
      await phase('tests that run alone', () => runFiles({ ...run, files: choice.alone, concurrency: 1 }))
  } finally {
    await Promise.all(started.map((service) => service.stop()))
  }
  if (choice.leftOut.length > 0) print(`\n${choice.leftOut.length} files need an engine and were left out.`)
}

/** Most files wait for sockets and timers longer than they compute: one more than there are cores, at least three. */
const concurrency = Math.min(6, Math.max(3, availableParallelism() + 1))

/** Each file is a process of its own, and many start gateways: compiling what all import took a third of their CPU. */
process.env.NODE_COMPILE_CACHE ??= `${root}/node_modules/.cache/node`

async function checks(): Promise<void> {
  await phase('types', () => command('tsc', ['--noEmit', '-p', 'tsconfig.json']))
  await phase('style', () => command('biome', ['check', '--max-diagnostics=50', '.']))
  await phase('structure', async () => {
    const outcomes = await tidy(root)
    print(describe(outcomes))
    const failed = outcomes.filter(({ faults }) => faults.length > 0).length
    return { passed: outcomes.length - failed, failed, skipped: 0 }
  })
}

/** A check that is a command: its exit code decides. */
function command(name: string, args: readonly string[]): Promise<Tally> {
  return new Promise((resolve) => {
    const child = spawn(`${root}/node_modules/.bin/${name}`, args, { cwd: root, stdio: 'inherit' })
    const end = (passed: boolean) => resolve({ passed: passed ? 1 : 0, failed: passed ? 0 : 1, skipped: 0 })
    child.on('error', (error) => {
      print(`${name} could not be started (npm ci installs it): ${error.message}`)
      end(false)
    })
    child.on('exit', (code) => end(code === 0))
  })
}

/** An engine that the environment names is used as it is; a missing one is a failure where `CI` is set. */
async function startEngines(names: readonly string[], started: Service[]): Promise<Tally> {
  const tally = createTally()
  await stopOrphans()
  for (const name of names) {
    if (isAtHand(name)) {
      print(`✔ ${name} is named by the environment`)
      continue
    }
    try {
      const service = await engines[name]!.start({})
      started.push(service)
      Object.assign(process.env, service.env)
      print(`✔ ${name} at ${service.url}`)
    } catch (error) {
      print(`✖ ${name}: ${(error as Error).message}`)
      tally[error instanceof EngineMissing && !strict ? 'skipped' : 'failed']++
    }
  }
  return tally
}

// A signal stops the test files too, then runs the exit hooks that stop the engines.
for (const [name, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  process.once(name, () => {
    interrupted.abort()
    setImmediate(() => process.exit(code))
  })
}

try {
  await main()
} catch (error) {
  print(`\n${(error as Error).message}`)
  sum.failed++
}
if (times.length > 0) print(`\n${times.join(' · ')}`)
print(say(sum))
process.exitCode = sum.failed > 0 ? 1 : 0

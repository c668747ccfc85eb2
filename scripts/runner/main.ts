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
import { type Group, groupsOf } from './groups.ts'
import { joinGateway } from './joined-gateway.ts'
import { createMemoryFolder } from './memory-folder.ts'
import { createReleases, rareFirst } from './releases.ts'
import { add, createTally, say, seconds, type Tally } from './tally.ts'
import { startTimes } from './times.ts'

const usage = `Usage: npm test -- [options]
  --only <part of a path>   only test files with this in their path, without the checks before them; repeatable
  --unit                    only what needs no engine
  --long                    the long tests, which a usual run leaves out
  --seed <number>           the seed of the random tests
  --keep-going              run the tests although a check failed
  --times                   the 40 slowest files with their CPU seconds, at the end`

const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
const strict = Boolean(process.env.CI)
const print = (line: string) => console.log(line)
const sum = createTally()
const times: string[] = []
const failures: string[] = []
const interrupted = new AbortController()

/** One named part of the run; its time is printed, its counts go into the sum. */
async function phase(
  name: string,
  work: () => Promise<Tally>,
  startedMs = performance.now(),
): Promise<Tally> {
  print(`\n── ${name}`)
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
    long: { type: 'boolean', default: false },
    seed: { type: 'string' },
    'keep-going': { type: 'boolean', default: false },
    times: { type: 'boolean', default: false },
  })
  if (values.seed !== undefined) process.env.SLUICE_SEED = values.seed

  const tree = readTree(root)
  const choice = choose(tree, values)
  const files = [...choice.beside, ...choice.seeds, ...choice.crash, ...choice.exact, ...choice.alone]
  if (files.length === 0) misused(usage, `no test file has ${values.only.join(' or ')} in its path`)

  const memory = createMemoryFolder()
  const startedMs = performance.now()
  // Engines mostly wait while they start, the checks compute.
  const engined = startEngines(choice.engines)
  engined.catch(() => {}) // It is awaited behind the checks.
  try {
    if (values.only.length === 0 && !values.long) await phase('checks', checks)
    if (sum.failed > 0 && !values['keep-going'])
      return print('\nThe tests did not run: mend the checks above first, or add "-- --keep-going".')
    // Tests that need none, and start none, begin while they are installed.
    const ready =
      choice.engines.length === 0
        ? engined
        : engined.then((all) => phase('engines', async () => report(all), startedMs))
    ready.catch(() => {}) // It is awaited behind the tests.
    // A few files are as quick with the sources.
    if (values.only.length === 0) process.env.SLUICE_TEST_GATEWAY = await joinGateway(root)
    const times = values.times ? startTimes(root) : undefined
    const failed = (lines: string) => void failures.push(lines)
    const released = createReleases(choice.needing)
    const ended = (group: Group) => {
      const names = released(group)
      if (names.length > 0) engined.then((all) => stopThose(all, names)).catch(() => {})
    }
    const run = { root, strict, print, failed, ended, signal: interrupted.signal, times }
    const each = (files: readonly string[]) =>
      rareFirst(
        files.map((file) => [file]),
        choice.needing,
      )
    const needs = (file: string) => choice.needing.has(file)
    const queue = (groups: readonly Group[]) => ({
      groups,
      later: { groups: new Set(groups.filter((group) => group.some(needs))), when: ready },
    })
    const place = new Map(choice.beside.map((file, index) => [file, index]))
    const beside = [true, false]
      .flatMap((isNeeding) =>
        groupsOf(
          tree,
          choice.beside.filter((file) => needs(file) === isNeeding),
        ),
      )
      .sort(([a], [b]) => place.get(a!)! - place.get(b!)!)
    const tests = [
      // Tests that kill or measure have their files where a gateway has them.
      { ...queue(each(choice.crash)), atOnce: 1, atOnceAlone: crashMax },
      { ...queue(each(choice.seeds)), atOnce: 1, atOnceAlone: besideMax, temporary: memory, niceness },
      { ...queue(rareFirst(beside, choice.needing)), atOnce: atOnceMax, temporary: memory, niceness },
    ]
    for (const [name, queues] of [
      ['tests', tests],
      ['tests that measure time', [{ groups: each(choice.exact), atOnce: exactMax }]],
      ['tests that run alone', [{ groups: each(choice.alone), atOnce: 1 }]],
    ] as const) {
      if (queues !== tests) await ready
      const isEmpty = queues.every(({ groups }) => groups.length === 0)
      if (!isEmpty) await phase(name, () => runFiles({ ...run, queues, atOnceMax }))
    }
    if (times !== undefined) print(`\n${times.table()}`)
  } finally {
    await Promise.all((await engined).started.map((service) => service.stop()))
  }
  if (choice.longLeftOut > 0)
    print(`\n${choice.longLeftOut} long files were left out: npm run test:long runs them.`)
  if (choice.leftOut.length > 0) print(`\n${choice.leftOut.length} files need an engine and were left out.`)
}

/** Most files wait for sockets and timers longer than they compute: one more than there are cores, at least three. */
const besideMax = Math.min(6, Math.max(3, availableParallelism() + 1))
/**
 * The place of one that kills is another file's where none of those is left or may begin yet. With five at once on two
 * cores a run ended 20 % sooner, and tests failed that count on time.
 */
const atOnceMax = besideMax + 1
/**
 * Tests that kill load the disk, and wait half of the time for what they killed: one of them runs beside the others, and
 * three at once when nothing else is left. Four on two cores were no faster than three, and those that kill at a chosen
 * moment came too late for it.
 */
const crashMax = 3
/** Tests that compute leave more of the cores to those that kill: each gets four tenths of the weight of one of those. */
const niceness = 4
/** Their gateways use a tenth of a core. With three on two cores a call came 20 ms late at the server that counts it. */
const exactMax = 2

/** Most processes of the run load the gateway: compiling what all import took a third of their CPU. */
process.env.NODE_COMPILE_CACHE ??= `${root}/node_modules/.cache/node`

interface Checked {
  readonly tally: Tally
  readonly lines: string
}

/** At once: the compiler uses one core. Each is told when it has ended. */
async function checks(): Promise<Tally> {
  const startedMs = performance.now()
  const tally = createTally()
  async function check(name: string, work: () => Promise<Checked>): Promise<void> {
    const { tally: own, lines } = await work()
    if (lines !== '') print(lines)
    print(`${own.failed === 0 ? '✔' : '✖'} ${name}: ${say(own)}, ${seconds(startedMs, performance.now())}`)
    add(tally, own)
  }
  await Promise.all([
    check('types', () => command('tsc', ['--noEmit', '-p', 'tsconfig.json'])),
    check('style', () => command('biome', ['check', '--max-diagnostics=50', '.'])),
    check('structure', async () => {
      const outcomes = await tidy(root)
      const failed = outcomes.filter(({ faults }) => faults.length > 0).length
      return { tally: { passed: outcomes.length - failed, failed, skipped: 0 }, lines: describe(outcomes) }
    }),
  ])
  return tally
}

/** A check that is a command: its exit code decides. */
function command(name: string, args: readonly string[]): Promise<Checked> {
  return new Promise((resolve) => {
    const child = spawn(`${root}/node_modules/.bin/${name}`, args, { cwd: root })
    let lines = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        lines += text
      })
    const end = (passed: boolean) =>
      resolve({
        tally: { passed: passed ? 1 : 0, failed: passed ? 0 : 1, skipped: 0 },
        lines: passed ? '' : lines.trimEnd(),
      })
    child.on('error', (error) => {
      lines = `${name} could not be started (npm ci installs it): ${error.message}`
      end(false)
    })
    child.on('close', (code) => end(code === 0))
  })
}

interface Engined {
  readonly started: Service[]
  readonly tally: Tally
  readonly lines: string[]
}

/** An engine that the environment names is used as it is; a missing one is a failure where `CI` is set. */
async function startEngines(names: readonly string[]): Promise<Engined> {
  const engined: Engined = { started: [], tally: createTally(), lines: [] }
  const { started, tally, lines } = engined
  if (names.length > 0) await stopOrphans()
  for (const name of names) {
    if (isAtHand(name)) {
      lines.push(`✔ ${name} is named by the environment`)
      continue
    }
    try {
      const service = await engines[name]!.start({})
      started.push(service)
      Object.assign(process.env, service.env)
      lines.push(`✔ ${name} at ${service.url}`)
    } catch (error) {
      lines.push(`✖ ${name}: ${(error as Error).message}`)
      tally[error instanceof EngineMissing && !strict ? 'skipped' : 'failed']++
    }
  }
  return engined
}

/** Each is stopped once more at the end, which tells of one that could not be. */
async function stopThose({ started }: Engined, names: readonly string[]): Promise<void> {
  const those = started.filter(({ name }) => names.includes(name))
  await Promise.all(those.map((service) => service.stop().catch(() => {})))
}

function report({ lines, tally }: Engined): Tally {
  for (const line of lines) print(line)
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
// Hundreds of lines stand behind a failure of the first minutes, and the record of a run may keep only its end.
if (failures.length > 0) print(`\n── failed\n${failures.join('\n')}`)
if (times.length > 0) print(`\n${times.join(' · ')}`)
print(say(sum))
process.exitCode = sum.failed > 0 ? 1 : 0

/**
 * The command `npm run check:fleet`: runs the proofs on real engines one by one; or seeds of the fleet simulator on all cores,
 * where it shows each broken invariant with the command that repeats it; or the sabotages.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { misused, readArguments } from '../../../../scripts/runner/arguments.ts'
import { didYouMean } from '../../src/config/suggestion.ts'
import { type DrillOfOne, drilledAlone, drillsOfOne } from './drills-of-one.ts'
import { type RunOptions, type RunResult, runFleet } from './fleet.ts'
import { type Drill, drills } from './fleet-drills.ts'
import { type Focus, focusOf } from './fleet-settings.ts'
import { runGateways } from './gateways.ts'
import { sabotages } from './sabotages.ts'
import { createScriptServer, openRedisScriptServer } from './script-servers.ts'
import { shrink } from './shrink.ts'
import { startSimRedis } from './sim-redis.ts'
import { runStep, type Scale, type Step, steps } from './steps.ts'

/** Seeds within which each sabotage must be found: of one gateway, and of several. */
const sabotageSeedsMax = 400
const fleetSabotageSeedsMax = 2_000
/** Workers whose scripts run on a real Redis wait for it nearly half of the time. */
const workersPerCoreOverRedis = 2
/** How often it is told how many seeds have run, ms. */
const tellMs = 30_000

interface Failure {
  readonly seed: number
  readonly invariant: string
  readonly detail: string
}

const usage = `Usage: npm run check:fleet -- [options]
Without options it runs the proofs of a fleet on real engines, one after the other, small: a line each, exit code 1 where
one failed.

  --only <names>     these of them, separated by commas
  --scale <scale>    small (a minute each) or full: the figures of a release, minutes or hours each (small)
  --list             name them

With one of the following it runs whole gateways in virtual time under seeded kills, delays and failures at every port, and
checks the invariants.

  --seeds <number>   run so many seeds on all cores (100, of a sabotage ${sabotageSeedsMax}, between gateways ${fleetSabotageSeedsMax})
  --from <seed>      the first of them (1)
  --seed <number>    run one seed; where it fails, write its trace and name the faults that the failure needs
  --trace <file>     write the trace of that seed, whether it fails or not
  --calls            with every call of a port in the trace
  --gateways <n>     run so many gateways at once, 1 to 4, over one record and one server of limits (1)
  --drill <name>     run seeds with the traffic and the faults of a drill. One gateway: ${drillsOfOne.join(', ')};
                     several: ${drills.join(', ')}
  --served           count the limits of the one gateway in a server, which loses them as the seed says
  --redis            run the scripts of the limits on a Redis that the command starts, in place of their translation in
                     the process itself: the same traces at twice the cost
  --sabotage [name]  try each one-line sabotage, or this one: the oracles must find it`

const { values, positionals } = readArguments(
  usage,
  {
    seeds: { type: 'string' },
    from: { type: 'string' },
    seed: { type: 'string' },
    trace: { type: 'string' },
    calls: { type: 'boolean', default: false },
    gateways: { type: 'string' },
    drill: { type: 'string' },
    served: { type: 'boolean', default: false },
    redis: { type: 'boolean', default: false },
    /** The Redis of a worker. */
    socket: { type: 'string' },
    sabotage: { type: 'boolean', default: false },
    /** A worker prints a line for each failed seed, and ends at the first one where that is enough. */
    worker: { type: 'boolean', default: false },
    stride: { type: 'string', default: '1' },
    /** A worker passes over seeds that concentrate on something else. */
    focus: { type: 'string' },
    only: { type: 'string' },
    scale: { type: 'string', default: 'small' },
    list: { type: 'boolean', default: false },
    first: { type: 'boolean', default: false },
  },
  { allowPositionals: true },
)
const names = sabotages.map(({ name }) => name)
for (const name of positionals)
  if (!values.sabotage || !names.includes(name))
    misused(usage, `there is no sabotage called ${name}${didYouMean(name, names)}`)
for (const name of ['seeds', 'from', 'seed', 'stride'] as const)
  if (values[name] !== undefined && !/^[1-9]\d*$/.test(values[name]))
    misused(usage, `--${name} wants a number from 1, not "${values[name]}"`)
if (values.gateways !== undefined && !/^[1-4]$/.test(values.gateways))
  misused(usage, `--gateways wants a number from 1 to 4, not "${values.gateways}"`)
if (values.served && values.gateways !== undefined && values.gateways !== '1')
  misused(usage, '--served is for one gateway: several have a server in any case')
const gateways = Number(values.gateways ?? 1)
const drill = drills.find((each) => each === values.drill)
const drillOfOne = drillsOfOne.find((each) => each === values.drill)
const drillNames = gateways === 1 ? drillsOfOne : drills
if (values.drill !== undefined && !drillNames.some((each) => each === values.drill))
  misused(usage, `there is no drill called ${values.drill}${didYouMean(values.drill, drillNames)}`)
if (values.scale !== 'small' && values.scale !== 'full')
  misused(usage, `--scale wants small or full, not "${values.scale}"`)
const scale: Scale = values.scale === 'full' ? 'full' : 'small'
const chosen = values.only?.split(',').map(stepCalled) ?? steps
const isSimulated =
  values.sabotage ||
  values.worker ||
  [values.seeds, values.seed, values.from, values.gateways].some((each) => each !== undefined)
const from = Number(values.from ?? 1)
/** A Redis of this command, which its workers share. */
const redis = values.redis && values.socket === undefined ? await startSimRedis() : undefined
const socket = values.socket ?? redis?.url
const scripts = socket === undefined ? undefined : await openRedisScriptServer(socket)

try {
  if (values.list) for (const { name, shows } of steps) console.log(`${name.padEnd(22)} ${shows}`)
  else if (!isSimulated) await prove()
  else if (values.worker) await work()
  else if (values.seed !== undefined) await one(Number(values.seed))
  else if (values.sabotage) await sabotageAll()
  else await many(Number(values.seeds ?? 100))
} finally {
  scripts?.close()
  await redis?.stop()
}

function stepCalled(name: string): Step {
  const step = steps.find((each) => each.name === name)
  if (step !== undefined) return step
  const known = steps.map((each) => each.name)
  return misused(usage, `there is no proof called ${name}${didYouMean(name, known)}; --list names them`)
}

/** Runs the chosen proofs one after the other: each wants the cores for itself. */
async function prove(): Promise<void> {
  const failed: string[] = []
  for (const [index, step] of chosen.entries()) {
    console.error(`${index + 1} of ${chosen.length}: ${step.name}: ${step.shows}`)
    if (!(await runStep(step, scale))) failed.push(step.name)
  }
  const sum = `${chosen.length - failed.length} proofs hold, ${failed.length} failed`
  console.log(failed.length === 0 ? sum : `${sum}: ${failed.join(', ')}`)
  if (failed.length > 0) process.exitCode = 1
}

/** Runs one seed: of one gateway, or of several. */
function run(seed: number, options: RunOptions = {}, of = gateways): Promise<RunResult> {
  if (of === 1) {
    const limitServer = values.served ? (scripts ?? createScriptServer()) : undefined
    const settings = drillOfOne === undefined ? {} : { settings: drilledAlone(drillOfOne, seed) }
    return runFleet(seed, { ...options, ...settings, ...(limitServer === undefined ? {} : { limitServer }) })
  }
  return runGateways(seed, { ...options, gateways: of, drill, ...(scripts === undefined ? {} : { scripts }) })
}

async function work(): Promise<void> {
  // Errors are common here, and each takes its stack; `--seed` shows it.
  Error.stackTraceLimit = 0
  const stride = Number(values.stride)
  for (let seed = from; seed < from + Number(values.seeds) * stride; seed += stride) {
    if (values.focus !== undefined && focusOf(seed) !== values.focus) continue
    const { violations, figures } = await run(seed)
    console.log(JSON.stringify({ seed, figures, violation: violations[0] }))
    if (values.first && violations.length > 0) return
  }
}

async function one(seed: number): Promise<void> {
  const began = performance.now()
  const { violations, lines, traceHash, struck, figures } = await run(seed, { isVerbose: values.calls })
  const tookMs = Math.round(performance.now() - began)
  console.log(`seed ${seed}: ${JSON.stringify(figures)}, trace ${traceHash}, ${tookMs} ms`)
  const file =
    values.trace ?? (violations.length > 0 ? join(tmpdir(), `sluice-fleet-${seed}.jsonl`) : undefined)
  if (file !== undefined) {
    writeFileSync(file, lines.map((line) => `${line}\n`).join(''))
    console.log(`trace: ${file}`)
  }
  if (violations.length === 0) return
  for (const { at, invariant, detail } of violations) console.log(`  ${at} ms: ${invariant}: ${detail}`)
  const needed = await shrink(violations[0]!.invariant, struck, (without) => run(seed, { without }))
  console.log(`  it needs ${needed.length} of ${struck.length} faults: ${needed.join(', ')}`)
  process.exitCode = 1
}

/** Runs seeds in one process a core; resolves with the failures, which `onFailure` sees as they come. */
async function spread(
  count: number,
  options: {
    readonly first?: boolean
    readonly sabotage?: string
    readonly gateways?: number
    readonly focus?: Focus
    readonly drill?: Drill | DrillOfOne | undefined
    readonly onFailure?: (failure: Failure) => void
    /** Called with how many seeds have run, after each. */
    readonly onRun?: (ran: number) => void
  },
): Promise<{ readonly ran: number; readonly failures: readonly Failure[] }> {
  const of = options.gateways ?? gateways
  const workers = Math.max(
    1,
    Math.min(count, availableParallelism() * (socket === undefined ? 1 : workersPerCoreOverRedis)),
  )
  const failures: Failure[] = []
  let ran = 0
  const children = Array.from({ length: workers }, (_, index) => {
    const seeds = Math.ceil((count - index) / workers)
    const args = [
      '--worker',
      '--from',
      String(from + index),
      '--stride',
      String(workers),
      '--seeds',
      String(seeds),
      '--gateways',
      String(of),
      ...(values.served ? ['--served'] : []),
      ...(socket === undefined ? [] : ['--socket', socket]),
      ...(options.focus === undefined ? [] : ['--focus', options.focus]),
      ...(options.drill === undefined ? [] : ['--drill', options.drill]),
    ]
    const hook = new URL('./sabotage-hook.ts', import.meta.url).href
    const child = spawn(
      process.execPath,
      [
        ...process.execArgv,
        ...(options.sabotage === undefined ? [] : ['--import', hook]),
        import.meta.filename,
        ...args,
        ...(options.first === true ? ['--first'] : []),
      ],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
        env: { ...process.env, ...(options.sabotage && { SLUICE_SABOTAGE: options.sabotage }) },
      },
    )
    return child
  })
  await Promise.all(
    children.map(async (child) => {
      const ended = new Promise<number | null>((resolve) => child.on('exit', resolve))
      for await (const line of createInterface({ input: child.stdout })) {
        const { seed, violation } = JSON.parse(line) as { seed: number; violation?: Omit<Failure, 'seed'> }
        ran += 1
        options.onRun?.(ran)
        if (violation === undefined) continue
        const failure = { seed, invariant: violation.invariant, detail: violation.detail }
        failures.push(failure)
        options.onFailure?.(failure)
        if (options.first === true) for (const each of children) each.kill()
      }
      const code = await ended
      if (code !== 0 && code !== null)
        failures.push({ seed: -1, invariant: 'program', detail: `exit code ${code}` })
    }),
  )
  return { ran, failures }
}

async function many(count: number): Promise<void> {
  const began = performance.now()
  let toldAt = began
  let failed = 0
  const seconds = (): number => Math.round((performance.now() - began) / 1_000)
  const onRun = (ran: number): void => {
    if (performance.now() - toldAt < tellMs) return
    toldAt = performance.now()
    const leftSeconds = Math.round((seconds() / ran) * (count - ran))
    console.error(
      `${ran} of ${count} seeds, ${failed} failed, ${seconds()} s; some ${leftSeconds} s are left`,
    )
  }
  const onFailure = ({ seed, invariant, detail }: Failure): void => {
    failed += 1
    console.log(`seed ${seed}: ${invariant}: ${detail}`)
    const of = gateways === 1 ? (values.served ? '--served ' : '') : `--gateways ${gateways} `
    const traffic = values.drill === undefined ? '' : `--drill ${values.drill} `
    console.log(`  npm run check:fleet -- ${of}${traffic}--seed ${seed}`)
  }
  const { ran, failures } = await spread(count, { onFailure, onRun, drill: drill ?? drillOfOne })
  console.log(`${ran} seeds, ${failures.length} failed, ${seconds()} s`)
  if (failures.length > 0) process.exitCode = 1
}

async function sabotageAll(): Promise<void> {
  for (const name of positionals.length > 0 ? positionals : names) {
    const began = performance.now()
    const { gateways: most = 1, focus, drill: own } = sabotages.find((each) => each.name === name)!
    const seedsMax = most > 1 ? fleetSabotageSeedsMax : sabotageSeedsMax
    const { ran, failures } = await spread(Number(values.seeds ?? seedsMax), {
      first: true,
      sabotage: name,
      gateways: Math.max(most, gateways),
      ...(focus === undefined ? {} : { focus }),
      drill: own,
    })
    const seconds = Math.round((performance.now() - began) / 1_000)
    const [first] = failures
    // A worker that could not run has found nothing.
    const isFound = first !== undefined && first.seed > 0
    const found = !isFound
      ? `NOT FOUND ${first?.detail ?? ''}`
      : `seed ${first.seed}: ${first.invariant}: ${first.detail}`
    console.log(
      `${name.padEnd(36)} ${(own ?? focus ?? 'all').padEnd(8)} ${String(ran).padStart(4)} runs ${String(seconds).padStart(4)} s  ${found}`,
    )
    if (!isFound) process.exitCode = 1
  }
}

/**
 * Runs groups of test files with Node's own runner, each group in a process of its own, and reports one line a group.
 * What it prints is kept back and shown when it fails: there stands the seed that reproduces it.
 */
import { type EventData, run } from 'node:test'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { missingEngine } from '../services/needs.ts'
import { type Group, nameOf } from './groups.ts'
import { add, createTally, say, type Tally } from './tally.ts'
import type { Times } from './times.ts'

/** Groups that run in their order. */
export interface Queue {
  readonly groups: readonly Group[]
  /** Groups of it at once. */
  readonly atOnce: number
  /**
   * The same where no other queue has anything left.
   * @defaultValue `atOnce`
   */
  readonly atOnceAlone?: number
  /** The folder for their temporary files, where it is not that of the system. */
  readonly temporary?: string | undefined
  /**
   * By how much its processes are nicer than those of other queues.
   * @defaultValue 0
   */
  readonly niceness?: number
  /** Groups that begin when this is settled: the others begin before them. @defaultValue none */
  readonly later?: { readonly groups: ReadonlySet<Group>; readonly when: Promise<unknown> } | undefined
}

export interface FilesOptions {
  readonly root: string
  /** They run beside each other. */
  readonly queues: readonly Queue[]
  /**
   * Groups of all queues at once. A place that is free goes to the first queue that may take it.
   * @defaultValue as many as the queues allow
   */
  readonly atOnceMax?: number
  /** A test that is skipped for want of an engine has failed. */
  readonly strict: boolean
  readonly print: (line: string) => void
  /** Hears besides what was printed of a group that has failed. */
  readonly failed?: (lines: string) => void
  /** Hears of each group that has ended. */
  readonly ended?: (group: Group) => void
  /** Stops the groups that run, and starts no more. */
  readonly signal?: AbortSignal
  /**
   * After this a file is stopped and has failed; after twice as much a group of several.
   * @defaultValue 300,000
   */
  readonly fileTimeoutMs?: number
  /** Takes down how long each group took and what it cost. */
  readonly times?: Times | undefined
}

interface Report {
  readonly tally: Tally
  readonly failures: string[]
  output: string
  /** Names of the tests around the one that is reported, outermost first. */
  path: string[]
  /** The same of the one that runs: what it reports comes later. */
  running: string[]
}

/** Resolves with the counts when the last group has ended. A test with subtests counts beside them. */
export async function runFiles(options: FilesOptions): Promise<Tally> {
  const sum = createTally()
  const open = options.queues.map((queue) => {
    const { groups, later } = queue
    return { ...queue, waiting: [...groups], running: 0, isHeld: later !== undefined }
  })
  type Open = (typeof open)[number]

  function nextOf({ waiting, later, isHeld }: Open): Group | undefined {
    const index = isHeld ? waiting.findIndex((group) => !later!.groups.has(group)) : 0
    return index < 0 ? undefined : waiting.splice(index, 1)[0]
  }

  const maxOf = (queue: Open): number => {
    const isAlone = open.every((other) => other === queue || other.waiting.length + other.running === 0)
    return isAlone ? (queue.atOnceAlone ?? queue.atOnce) : queue.atOnce
  }

  const hasPlace = (): boolean =>
    open.reduce((running, queue) => running + queue.running, 0) < (options.atOnceMax ?? Infinity)

  async function runNext(queue: Open, group: Group): Promise<void> {
    const startedMs = performance.now()
    const report = await runGroup(options, group, queue)
    const tookMs = performance.now() - startedMs
    options.times?.took(group, tookMs)
    options.ended?.(group)
    printGroup(options, group, tookMs, report)
    add(sum, report.tally)
  }

  /** Starts what may run now, and again whenever a group has ended. */
  async function fill(): Promise<void> {
    const started: Promise<void>[] = []
    for (const queue of open)
      while (queue.running < maxOf(queue) && hasPlace() && !options.signal?.aborted) {
        const group = nextOf(queue)
        if (group === undefined) break
        queue.running += 1
        const ended = runNext(queue, group).finally(() => {
          queue.running -= 1
        })
        started.push(ended.then(fill))
      }
    await Promise.all(started)
  }

  const released = open.map(async (queue) => {
    await queue.later?.when.catch(() => undefined)
    queue.isHeld = false
    await fill()
  })
  await Promise.all([fill(), ...released])
  return sum
}

const together = fileURLToPath(new URL('./together.ts', import.meta.url))
const noPromiseHooks = new URL('./no-promise-hooks.ts', import.meta.url).href
const nicenessModule = new URL('./niceness.ts', import.meta.url).href

/** Tests in virtual time make garbage as fast as they can: they took 10 % more CPU with V8's own 1 to 16 MiB. */
const youngGeneration = ['--min-semi-space-size=16', '--max-semi-space-size=32']

/** One group at a time in each call of `run`: only so can one that never ends be stopped by itself. */
async function runGroup(
  options: FilesOptions,
  group: Group,
  { temporary, niceness = 0 }: Queue,
): Promise<Report> {
  const report: Report = { tally: createTally(), failures: [], output: '', path: [], running: [] }
  const { tally, failures } = report
  const timeoutMs = (options.fileTimeoutMs ?? 300_000) * (group.length === 1 ? 1 : 2)
  const overtime = AbortSignal.timeout(timeoutMs)
  const paths = group.map((file) => `${options.root}/${file}`)
  const stream = run({
    files: group.length === 1 ? paths : [together],
    argv: group.length === 1 ? [] : paths,
    cwd: options.root,
    env: temporary === undefined ? process.env : { ...process.env, TMPDIR: temporary },
    execArgv: [
      '--conditions=sluice-source',
      '--disable-warning=ExperimentalWarning',
      `--import=${noPromiseHooks}`,
      ...(niceness > 0 ? [`--import=${nicenessModule}?by=${niceness}`] : []),
      ...youngGeneration,
      ...(options.times?.execArgv ?? []),
    ],
    signal: options.signal ? AbortSignal.any([options.signal, overtime]) : overtime,
  })
  stream.on('test:start', ({ nesting, name }) => {
    report.path = [...report.path.slice(0, nesting), name]
  })
  stream.on('test:dequeue', ({ nesting, name }) => {
    report.running = [...report.running.slice(0, nesting), name]
  })
  const keep = ({ message }: { message: string }) => {
    report.output += message
  }
  stream.on('test:stdout', keep)
  stream.on('test:stderr', keep)
  stream.on('test:diagnostic', ({ message }) => {
    if (/uncaughtException|unhandledRejection/.test(message)) failures.push(message)
  })
  stream.on('test:pass', (event) => {
    // A suite that is skipped reports none of its tests.
    if (event.details.type === 'suite' && event.skip === undefined) return
    const engineless = typeof event.skip === 'string' && event.skip.startsWith(missingEngine)
    if (engineless && options.strict) {
      tally.failed++
      failures.push(`${event.name}\n${event.skip}; where CI is set that is a failure`)
    } else tally[event.skip !== undefined || event.todo !== undefined ? 'skipped' : 'passed']++
  })
  stream.on('test:fail', (event) => {
    const inside = failureType(event) === 'subtestsFailed'
    if (event.todo !== undefined) tally.skipped++
    else if (!inside || event.details.type !== 'suite') tally.failed++
    if (event.todo === undefined && !inside && !overtime.aborted)
      failures.push(describe(event, report.path, group))
  })
  for await (const _ of stream); // until the group has ended
  if (overtime.aborted) {
    const running = report.running.length === 0 ? '' : ` in "${report.running.join(' › ')}"`
    failures.push(
      `did not end within ${timeoutMs / 1000} s and was stopped${running}: something is left open`,
    )
    tally.failed = Math.max(tally.failed, 1)
  }
  return report
}

function printGroup(
  { print, failed }: FilesOptions,
  group: Group,
  durationMs: number,
  { tally, failures, output }: Report,
): void {
  const hasFailed = failures.length > 0 || tally.failed > 0
  const sum = `${hasFailed ? '✖' : '✔'} ${nameOf(group)}  ${say(tally)}  ${(durationMs / 1000).toFixed(1)} s`
  if (!hasFailed) {
    print(sum)
    return
  }
  const lines = [sum]
  if (group.length > 1) lines.push(indent(`the others: ${group.slice(1).join(' ')}`))
  lines.push(...failures.map((failure) => indent(`✖ ${failure}`)))
  const printed = output.trim().split('\n').slice(-40).join('\n')
  if (printed) lines.push(indent(`what it printed:\n${printed}`))
  print(lines.join('\n'))
  failed?.(lines.join('\n'))
}

function describe(event: EventData.TestFail, path: readonly string[], group: Group): string {
  const { error } = event.details
  const told = inspect(error.cause ?? error).replace(/\n\s+at .*\bnode:internal\/.*/g, '')
  if (event.details.type === undefined && event.name === event.file) return `the file itself: ${told}`
  const around = path.slice(0, event.nesting)
  const file = group.length === 1 ? '' : `${event.file?.slice(process.cwd().length + 1)}, `
  const at = event.line ? ` (${file}line ${event.line})` : ''
  return `${[...around, event.name].join(' › ')}${at}\n${told}`
}

function failureType(event: EventData.TestFail): string | undefined {
  return (event.details.error as { failureType?: string }).failureType
}

function indent(text: string): string {
  return text.replace(/^/gm, '    ')
}

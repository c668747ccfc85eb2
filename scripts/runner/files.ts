/**
 * Runs test files with Node's own runner, each file in a process of its own, and reports one line a file. What a
 * file prints is kept back and shown when it fails: there stands the seed that reproduces it.
 */
import { type EventData, run } from 'node:test'
import { inspect } from 'node:util'
import { missingEngine } from '../services/needs.ts'
import { add, createTally, say, type Tally } from './tally.ts'
import type { Times } from './times.ts'

export interface FilesOptions {
  readonly root: string
  readonly files: readonly string[]
  /** Files at once. */
  readonly concurrency: number
  /** A test that is skipped for want of an engine has failed. */
  readonly strict: boolean
  readonly print: (line: string) => void
  /** Stops the files that run, and starts no more. */
  readonly signal?: AbortSignal
  /**
   * After this a file is stopped and has failed.
   * @defaultValue 300,000
   */
  readonly fileTimeoutMs?: number
  /** Takes down how long each file took and what it cost. */
  readonly times?: Times | undefined
}

interface FileReport {
  readonly tally: Tally
  readonly failures: string[]
  output: string
  /** Names of the tests around the one that runs, outermost first. */
  path: string[]
}

/** Resolves with the counts when the last file has ended. A test with subtests counts beside them. */
export async function runFiles(options: FilesOptions): Promise<Tally> {
  const sum = createTally()
  const waiting = [...options.files]
  const worker = async () => {
    for (let file = waiting.shift(); file && !options.signal?.aborted; file = waiting.shift()) {
      const startedMs = performance.now()
      const report = await runFile(options, file)
      const tookMs = performance.now() - startedMs
      options.times?.took(file, tookMs)
      printFile(options, file, tookMs, report)
      add(sum, report.tally)
    }
  }
  await Promise.all(Array.from({ length: options.concurrency }, worker))
  return sum
}

/** One file at a time in each call of `run`: only so can a file that never ends be stopped by itself. */
async function runFile(options: FilesOptions, file: string): Promise<FileReport> {
  const report: FileReport = { tally: createTally(), failures: [], output: '', path: [] }
  const { tally, failures } = report
  const timeoutMs = options.fileTimeoutMs ?? 300_000
  const overtime = AbortSignal.timeout(timeoutMs)
  const stream = run({
    files: [`${options.root}/${file}`],
    cwd: options.root,
    execArgv: [
      '--conditions=sluice-source',
      '--disable-warning=ExperimentalWarning',
      ...(options.times?.execArgv ?? []),
    ],
    signal: options.signal ? AbortSignal.any([options.signal, overtime]) : overtime,
  })
  stream.on('test:start', ({ nesting, name }) => {
    report.path = [...report.path.slice(0, nesting), name]
  })
  const keep = ({ message }: { message: string }) => {
    report.output += message
  }
  stream.on('test:stdout', keep)
  stream.on('test:stderr', keep)
  stream.on('test:pass', (event) => {
    if (event.details.type === 'suite') return
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
    if (event.todo === undefined && !inside && !overtime.aborted) failures.push(describe(event, report.path))
  })
  for await (const _ of stream); // until the file has ended
  if (overtime.aborted) {
    failures.push(`did not end within ${timeoutMs / 1000} s and was stopped: something is left open`)
    tally.failed = Math.max(tally.failed, 1)
  }
  return report
}

function printFile({ print }: FilesOptions, file: string, durationMs: number, report: FileReport): void {
  const failed = report.failures.length > 0 || report.tally.failed > 0
  print(`${failed ? '✖' : '✔'} ${file}  ${say(report.tally)}  ${(durationMs / 1000).toFixed(1)} s`)
  if (!failed) return
  for (const failure of report.failures) print(indent(`✖ ${failure}`))
  const printed = report.output.trim().split('\n').slice(-40).join('\n')
  if (printed) print(indent(`what it printed:\n${printed}`))
}

function describe(event: EventData.TestFail, path: readonly string[]): string {
  const { error } = event.details
  const told = inspect(error.cause ?? error).replace(/\n\s+at .*\bnode:internal\/.*/g, '')
  if (event.details.type === undefined && event.name === event.file) return `the file itself: ${told}`
  const around = path.slice(0, event.nesting)
  const at = event.line ? ` (line ${event.line})` : ''
  return `${[...around, event.name].join(' › ')}${at}\n${told}`
}

function failureType(event: EventData.TestFail): string | undefined {
  return (event.details.error as { failureType?: string }).failureType
}

function indent(text: string): string {
  return text.replace(/^/gm, '    ')
}

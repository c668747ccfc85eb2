/**
 * Makes replays in a process of the lowest priority, one at a time: it reads the record by a connection of its own,
 * pauses while notifications are late, and ends where it needs more memory than it has. The last results are kept.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import type { StoreConfig } from '../config/config.ts'
import { SluiceError } from '../errors.ts'
import type { ReplayReport, ReplayRequest, Replays } from '../http/routes/replays.ts'
import type { Channel, JsonObject } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { TrafficPage, TrafficSource } from '../ports/traffic.ts'
import type { Clock, Random } from '../ports.ts'
import { linesMax } from './traffic.ts'

export interface ReplaysOptions {
  readonly config: StoreConfig
  /** Reads the record of a store in memory, which the process cannot open. */
  readonly record: Pick<TrafficSource, 'tenants' | 'page' | 'recipients'>
  /** The policy in force. */
  readonly policy: Policy
  readonly selfAddressed: ReadonlySet<Channel>
  readonly clock: Clock
  readonly random: Random
  /** @defaultValue 1,024 MiB of heap, and as many lines as a file of traffic may have */
  readonly bounds?: ReplayBounds
}

interface ReplayBounds {
  readonly heapMib: number
  readonly linesMax: number
}

/** The record of a store in memory, which a process cannot open: the notifications of each tenant and their recipients. */
interface CopiedRecord {
  readonly tenants: readonly (readonly [string, TrafficPage['items']])[]
  readonly recipients: readonly JsonObject[]
}

/** The work of the process, as plain values. */
export interface ReplayWork {
  readonly config: StoreConfig
  /** True where the name of the server of the store is not compared with its certificate. */
  readonly skipsNameCheck: boolean
  readonly copied?: CopiedRecord
  /** On the process clock, epoch ms. */
  readonly from: number
  readonly to: number
  readonly now: number
  readonly tenant?: string
  readonly sample?: number
  readonly policy: JsonObject
  readonly against: JsonObject
  readonly selfAddressed: readonly Channel[]
  readonly linesMax: number
}

/** A message of the process: it goes on only once it is answered. */
export type ReplayStep =
  | { readonly progress: number }
  | { readonly result: JsonObject }
  | { readonly failed: string }

/** Replays whose results are kept. */
const keptMax = 10
const defaultBounds: ReplayBounds = { heapMib: 1_024, linesMax }
/** Time between two looks at the lateness while it pauses, ms. */
const pauseMs = 1_000
const busyRetryAfterMs = 10_000
/** Warm-up before the period, ms, as far as a store in memory is copied. */
const copiedBeforeMs = 40 * 86_400_000

export function createReplays(options: ReplaysOptions): Replays {
  const { config, record: source, policy, selfAddressed, clock, random, bounds = defaultBounds } = options
  /** In the order of their start. */
  const reports = new Map<string, ReplayReport>()
  let running: { readonly id: string; readonly child: ChildProcess; cancelPause: () => void } | undefined
  let isStarting = false

  function update(id: string, patch: Partial<ReplayReport>): void {
    const known = reports.get(id)
    if (known !== undefined) reports.set(id, { ...known, ...patch })
  }

  async function copied({ from, to, tenant }: ReplayRequest): Promise<CopiedRecord> {
    const names = (await source.tenants()).filter((each) => tenant === undefined || each === tenant)
    const tenants: (readonly [string, TrafficPage['items']])[] = []
    const recipients: JsonObject[] = []
    for (const name of names) {
      const { items } = await source.page({ tenant: name, from: from - copiedBeforeMs, to })
      tenants.push([name, items.map(({ content: _, data: __, ...rest }) => rest)])
      const ids = [...new Set(items.map(({ to: { id } }) => id))]
      const found = await source.recipients(ids.map((recipient) => ({ tenant: name, recipient })))
      recipients.push(
        ...found.filter((each) => each !== undefined).map((each) => each as unknown as JsonObject),
      )
    }
    return { tenants, recipients }
  }

  async function workOf(request: ReplayRequest): Promise<ReplayWork> {
    const { tenant, sample, against = policy } = request
    const aheadMs = clock.aheadMs?.() ?? 0
    const isInMemory = config.postgres === undefined && config.path === ':memory:'
    const { plain, skipsNameCheck } = plainOf(config)
    return {
      config: plain,
      skipsNameCheck,
      ...(isInMemory ? { copied: await copied(request) } : {}),
      from: request.from - aheadMs,
      to: request.to - aheadMs,
      now: clock.now(),
      ...(tenant === undefined ? {} : { tenant }),
      ...(sample === undefined ? {} : { sample }),
      policy: request.policy.document,
      against: against.document,
      selfAddressed: [...selfAddressed],
      linesMax: bounds.linesMax,
    }
  }

  function run(id: string, work: ReplayWork, isLate: () => boolean): void {
    const child = startProcess(bounds.heapMib)
    const current = { id, child, cancelPause: () => {} }
    running = current
    // Ends the process where it still runs; the next replay need not wait for that.
    function finish(patch: Partial<ReplayReport>): void {
      if (reports.get(id)?.status === 'running') update(id, patch)
      if (running === current) running = undefined
      if (child.connected) child.disconnect()
    }
    function goOn(): void {
      if (running !== current) return
      if (isLate()) current.cancelPause = clock.at(clock.now() + pauseMs, goOn)
      else tell(child, 'go')
    }
    child.on('message', (step: ReplayStep) => {
      if ('progress' in step) {
        update(id, { progress: step.progress })
        goOn()
      } else if ('result' in step) finish({ status: 'done', progress: 1, result: step.result })
      else finish({ status: 'failed', detail: step.failed })
    })
    child.on('error', (error) => finish({ status: 'failed', detail: error.message }))
    child.on('exit', (code, signal) => finish({ status: 'failed', detail: detailOf(code, signal) }))
    tell(child, work)
  }

  /** Says why the process ended before its result. V8 aborts where the heap is full. */
  function detailOf(code: number | null, signal: string | null): string {
    return signal === 'SIGABRT' || signal === 'SIGTRAP' || code === 134
      ? `It needs more than ${bounds.heapMib.toLocaleString('en')} MiB: replay a shorter period or a sample.`
      : `Its process has ended (${signal ?? `exit code ${code}`}).`
  }

  return {
    async start(request) {
      if (running !== undefined || isStarting)
        throw new SluiceError(
          'REQUEST_LIMIT_EXCEEDED',
          'Another replay is under way. One is made at a time.',
          {
            retryAfterMs: busyRetryAfterMs,
          },
        )
      isStarting = true
      try {
        const now = clock.now()
        const work = await workOf(request)
        const report: ReplayReport = { id: random.id(now), status: 'running', progress: 0, createdAt: now }
        reports.set(report.id, report)
        for (const [oldest] of reports) if (reports.size > keptMax) reports.delete(oldest)
        run(report.id, work, request.isLate)
        return report
      } finally {
        isStarting = false
      }
    },
    find: async (id) => reports.get(id),
    async remove(id) {
      if (!reports.delete(id)) return false
      if (running?.id === id) await end()
      return true
    },
    close: () => end(),
  }

  async function end(): Promise<void> {
    const current = running
    running = undefined
    current?.cancelPause()
    const child = current?.child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('exit', resolve).once('error', resolve))
    // It only reads: nothing is left undone.
    child.kill('SIGKILL')
    await ended
  }
}

/** Options of Node by which certificates are found; those that test, debug or measure stay with this process. */
const inherited = /^--(use-|tls-|openssl-)/

/**
 * Starts the process of a replay. A thread of the gateway's own process is not enough: V8 collects the garbage of all
 * threads of a process with helpers of normal priority. For the threads that answer requests, on two cores under load,
 * a second held waits of 43 ms behind a thread of nice 19, 40 of them behind these helpers; 8 behind a process of nice 19
 * with helpers of its own, and 4 behind one that has no helpers (`perf sched`, `bench/replay-beside.ts`). It reads the record
 * from the memory of the system and writes nothing: the gateway flushes and checkpoints its file as often as without it.
 */
function startProcess(heapMib: number): ChildProcess {
  const args = [
    // In a checkout the packages of the workspace run from their source, as the launcher has it.
    ...(import.meta.url.endsWith('.ts') ? ['--conditions=sluice-source'] : []),
    ...process.execArgv.filter((argument) => inherited.test(argument)),
    `--max-old-space-size=${heapMib}`,
    '--single-threaded',
  ]
  const idle = chrt()
  const child = fork(new URL(`./replay-process${import.meta.url.slice(-3)}`, import.meta.url), [], {
    ...(idle === undefined
      ? { execArgv: args }
      : { execPath: idle, execArgv: ['--idle', '0', process.execPath, ...args] }),
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  // Threads that it starts later inherit this.
  if (child.pid !== undefined) setPriority(child.pid, constants.priority.PRIORITY_LOW)
  child.unref()
  child.channel?.unref()
  return child
}

/**
 * The command of Linux that runs a program only while a core has nothing else to do (`SCHED_IDLE`, sched(7)), where the
 * machine has it: whoever wakes takes the core at once, and from a process of nice 19 only when its slice of some
 * milliseconds ends. On two cores that nobody else used the 99th percentile of a request was 8.8 to 18.3 ms beside nice 19,
 * and 5.9 to 7.7 beside this (4.4 to 10.5 alone).
 */
function chrt(): string | undefined {
  return ['/usr/bin/chrt', '/bin/chrt'].find((path) => existsSync(path))
}

/** Sends a message; where the process has ended, its end is told by itself. */
function tell(child: ChildProcess, message: ReplayWork | 'go'): void {
  if (child.connected) child.send(message, () => {})
}

/** A configuration without the function that skips the check of a server's name, which no message can carry. */
function plainOf(config: StoreConfig): { readonly plain: StoreConfig; readonly skipsNameCheck: boolean } {
  const { postgres } = config
  if (postgres === undefined || postgres.ssl === false) return { plain: config, skipsNameCheck: false }
  const { checkServerIdentity, ...ssl } = postgres.ssl
  return {
    plain: { ...config, postgres: { ...postgres, ssl } },
    skipsNameCheck: checkServerIdentity !== undefined,
  }
}

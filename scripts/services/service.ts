/**
 * One started engine: its address, its processes, its temporary folder, and how it ends. Each is recorded in
 * `.services/` from the moment that its first process runs, so that whatever becomes of the starter, a later
 * command finds exactly what was started here and stops nothing else.
 */
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isAlive, markOf, type ProcessMark, signal, spawnDaemon, stopProcess } from './process.ts'

export interface Service {
  readonly name: string
  readonly url: string
  /** The environment variable by which tests find the engine, as `SLUICE_TEST_REDIS`. */
  readonly env: Readonly<Record<string, string>>
  /** The engine's process, the first of several unless it names another: to freeze or kill it in a test. */
  readonly pid: number
  readonly folder: string
  stop(): Promise<void>
}

export interface StartOptions {
  /** A data folder that outlives the service; a temporary one otherwise. */
  readonly folder?: string
  /**
   * Leave it running when this process ends.
   * @defaultValue false
   */
  readonly keep?: boolean
}

/** The recorded state of a service. */
export interface ServiceRecord {
  readonly name: string
  readonly url: string
  readonly env: Readonly<Record<string, string>>
  readonly folder: string
  readonly ownFolder: boolean
  readonly processes: readonly ProcessMark[]
  /** The process that stops it; absent when it was started to stay. */
  readonly owner?: ProcessMark
}

/** The tools of an engine's file while it starts. */
export interface Launch {
  readonly folder: string
  /** Starts a process of the engine, its output in `<label>.log`. */
  run(label: string, command: string, args: readonly string[], env?: Record<string, string>): number
  /** Takes a process over that the engine started by itself. */
  adopt(pid: number): void
  /** Waits until `probe` holds, for `patienceMs` at most; fails at once when a process of the engine ends. */
  until(what: string, probe: () => Promise<boolean>, patienceMs?: number): Promise<void>
}

const recordsFolder = fileURLToPath(new URL('../../.services', import.meta.url))
const stoppedAtExit = new Set<ProcessMark>()

/** Starts an engine: its folder, then `launch`; whatever `launch` started is stopped when it fails. */
export async function startService(
  name: string,
  options: StartOptions,
  launch: (launch: Launch) => Promise<{ url: string; env: Record<string, string>; pid?: number }>,
): Promise<Service> {
  const folder = options.folder ?? (await mkdtemp(join(tmpdir(), `sluice-${name}-`)))
  const owner = options.keep ? undefined : markOf(process.pid)
  const processes: ProcessMark[] = []
  let record: ServiceRecord = {
    name,
    url: '',
    env: {},
    folder,
    ownFolder: options.folder === undefined,
    processes,
    ...(owner && { owner }),
  }
  let file = ''
  const adopt = (pid: number) => {
    const mark = markOf(pid)
    if (!mark) throw new Error(`${name}: process ${pid} ended at once.\n${lastWords(folder)}`)
    processes.push(mark)
    if (owner) stopAtExit(mark)
    file ||= join(recordsFolder, `${name}-${pid}.json`)
    writeRecord(file, record)
  }
  const run: Launch['run'] = (label, command, args, env) => {
    const logFile = join(folder, `${label}.log`)
    const child = spawnDaemon({ command, args, folder, logFile, ...(env && { env }) })
    if (child.pid === undefined) throw new Error(`${name}: ${command} could not be started`)
    adopt(child.pid)
    return child.pid
  }
  const until = async (what: string, probe: () => Promise<boolean>, patienceMs = 20_000) => {
    const patienceEnds = Date.now() + patienceMs
    while (!(await probe())) {
      const ended = processes.some((mark) => !isAlive(mark))
      if (!ended && Date.now() < patienceEnds) await wait(20)
      else
        throw new Error(`${name}: ${what} ${ended ? 'never came' : 'took too long'}.\n${lastWords(folder)}`)
    }
  }
  let pid: number | undefined
  try {
    const launched = await launch({ folder, run, adopt, until })
    const { url, env } = launched
    pid = launched.pid
    record = { ...record, url, env }
    writeRecord(file, record)
  } catch (error) {
    await stopRecord(file, record)
    throw error
  }
  const final = record
  return {
    name,
    url: final.url,
    env: final.env,
    folder,
    pid: pid ?? processes[0]!.pid,
    stop: () => stopRecord(file, final),
  }
}

/** Everything on record, with its file. */
export function records(): { file: string; record: ServiceRecord }[] {
  let names: string[] = []
  try {
    names = readdirSync(recordsFolder).filter((name) => name.endsWith('.json'))
  } catch {}
  return names.flatMap((name) => {
    const file = join(recordsFolder, name)
    try {
      return [{ file, record: JSON.parse(readFileSync(file, 'utf8')) as ServiceRecord }]
    } catch {
      return [] // taken away between the listing and the reading
    }
  })
}

/** Stops what the record names, and forgets it. Stopping twice is no error. */
export async function stopRecord(file: string, record: ServiceRecord): Promise<void> {
  await Promise.all(record.processes.map((mark) => stopProcess(mark)))
  for (const mark of record.processes) stoppedAtExit.delete(mark)
  if (record.ownFolder) await rm(record.folder, { recursive: true, force: true, maxRetries: 5 })
  if (file) rmSync(file, { force: true })
}

/** Stops services whose starter ended without stopping them. */
export async function stopOrphans(): Promise<void> {
  const orphans = records().filter(({ record }) => record.owner && !isAlive(record.owner))
  await Promise.all(orphans.map(({ file, record }) => stopRecord(file, record)))
}

function writeRecord(file: string, record: ServiceRecord): void {
  mkdirSync(recordsFolder, { recursive: true })
  writeFileSync(`${file}.new`, `${JSON.stringify(record, null, 2)}\n`)
  renameSync(`${file}.new`, file)
}

/** Ends a service with this process, also when a test forgot it; its record stays for the next clean-up. */
function stopAtExit(mark: ProcessMark): void {
  if (stoppedAtExit.size === 0) {
    process.once('exit', () => {
      for (const left of stoppedAtExit) signal(left, 'SIGTERM')
    })
  }
  stoppedAtExit.add(mark)
}

function lastWords(folder: string): string {
  const logs = readdirSync(folder).filter((name) => name.endsWith('.log'))
  return logs
    .map((name) => readFileSync(join(folder, name), 'utf8').trim().split('\n').slice(-10).join('\n'))
    .join('\n')
}

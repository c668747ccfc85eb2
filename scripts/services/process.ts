/**
 * Background processes by identity. A pid alone is no name: it is given away again after its process has
 * ended, so each process is remembered as a pid with the instant at which it started, and only that pair is
 * ever signalled.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { openSync, readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'

export interface ProcessMark {
  readonly pid: number
  /** The system's own word for when the process started; compared, never read. */
  readonly started: string
}

export interface DaemonOptions {
  readonly command: string
  readonly args: readonly string[]
  readonly folder: string
  readonly logFile: string
  readonly env?: Record<string, string>
}

/** Starts a process that outlives this one, with its output in a file. */
export function spawnDaemon({ command, args, folder, logFile, env }: DaemonOptions): ChildProcess {
  const log = openSync(logFile, 'a')
  const child = spawn(command, args, {
    cwd: folder,
    detached: true,
    stdio: ['ignore', log, log],
    env: { ...process.env, ...env },
  })
  child.on('error', () => {}) // an unstartable command shows as a missing pid
  child.unref()
  return child
}

/** The identity of a running process; undefined when there is none with this pid, or only its remains. */
export function markOf(pid: number): ProcessMark | undefined {
  const started = process.platform === 'linux' ? startedByProc(pid) : startedByPs(pid)
  return started === undefined ? undefined : { pid, started }
}

export function isAlive(mark: ProcessMark): boolean {
  return markOf(mark.pid)?.started === mark.started
}

/** Sends a signal to this very process; false when it has ended. */
export function signal(mark: ProcessMark, name: NodeJS.Signals): boolean {
  if (!isAlive(mark)) return false
  try {
    process.kill(mark.pid, name)
    return true
  } catch {
    return false
  }
}

/** Asks a process to end, and insists after `patienceMs`. A frozen process is woken to hear it. */
export async function stopProcess(mark: ProcessMark, patienceMs = 10_000): Promise<void> {
  if (!signal(mark, 'SIGTERM')) return
  signal(mark, 'SIGCONT')
  const patienceEnds = Date.now() + patienceMs
  while (isAlive(mark)) {
    if (Date.now() > patienceEnds) signal(mark, 'SIGKILL')
    await wait(20)
  }
}

/**
 * Field 22 of /proc/<pid>/stat (proc(5)), counted from behind the name, which may hold spaces. A process whose first thread
 * is a zombie keeps its ports and files until its other threads (field 20) have ended, too.
 */
function startedByProc(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' && Number(fields[17]) <= 1 ? undefined : fields[19]
  } catch {
    return undefined
  }
}

function startedByPs(pid: number): string | undefined {
  const { stdout } = spawnSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { encoding: 'utf8' })
  const [state, ...started] = (stdout ?? '').trim().split(/\s+/)
  return !state || state.startsWith('Z') ? undefined : started.join(' ')
}

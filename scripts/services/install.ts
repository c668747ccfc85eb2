/**
 * Makes sure that an engine's commands are on this machine. Debian's own packages are installed when they are
 * missing and we may; everywhere else the error says what a person has to do.
 */
import { spawn } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

export interface Need {
  readonly engine: string
  readonly commands: readonly string[]
  /** Debian packages that bring the commands. */
  readonly packages: readonly string[]
  /** Answers to the packages' questions, in the form of debconf-set-selections. */
  readonly answers?: string
}

/** An engine that cannot be had here; the message names the way out. */
export class EngineMissing extends Error {
  override readonly name = 'EngineMissing'
}

/** Where daemons live on Debian although an ordinary user's path does not say so. */
const systemFolders = ['/usr/sbin', '/usr/local/sbin', '/sbin']

export function findCommand(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...systemFolders]
  return folders.map((folder) => join(folder, name)).find(isExecutable)
}

/** The end of a program. */
export interface Outcome {
  /** Absent where a signal ended it, or it could not be started. */
  readonly status: number | undefined
  /** All that it wrote, errors included. */
  readonly output: string
}

/** Runs a program to its end. Tests run meanwhile. */
export function runProgram(
  [command, ...args]: readonly string[],
  { input = '', cwd }: { readonly input?: string; readonly cwd?: string } = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = spawn(command!, args, { cwd, stdio: 'pipe' })
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    child.on('error', ({ message }) => resolve({ status: undefined, output: message }))
    child.on('close', (code) => resolve({ status: code ?? undefined, output }))
    // One that reads nothing may end before it was written.
    child.stdin.on('error', () => undefined)
    child.stdin.end(input)
  })
}

/** The last lines of what a program wrote. */
export const endOf = ({ output }: Outcome, lines: number): string =>
  output.trim().split('\n').slice(-lines).join('\n')

/** Installations of the package manager under way: one at a time. */
let installing: Promise<unknown> = Promise.resolve()

/** Installs what is missing. @throws {EngineMissing} when that is not possible here. */
export async function ensureInstalled(need: Need): Promise<void> {
  if (need.commands.every(findCommand)) return
  const wayOut =
    `Install ${need.packages.join(' and ')} (Debian: sudo apt-get install ${need.packages.join(' ')}), ` +
    'or start the engine otherwise (compose.yaml) and name it in the environment (CONTRIBUTING.md, "Engines").'
  if (!findCommand('apt-get')) throw new EngineMissing(`${need.engine} is not installed. ${wayOut}`)
  const sudo = await sudoWords()
  if (!sudo)
    throw new EngineMissing(`${need.engine} is not installed, and only root may install it. ${wayOut}`)
  const own = installing.then(async () => {
    if (need.commands.every(findCommand)) return
    console.error(`installing ${need.packages.join(', ')} for ${need.engine} …`)
    await install(need, sudo, wayOut)
  })
  installing = own.catch(() => undefined)
  await own
  const missing = need.commands.filter((command) => !findCommand(command))
  if (missing.length > 0)
    throw new EngineMissing(`${missing.join(', ')} did not come with the packages. ${wayOut}`)
}

async function install(need: Need, sudo: readonly string[], wayOut: string): Promise<void> {
  const run = (words: readonly string[], input = '') =>
    runProgram([...sudo, 'env', 'DEBIAN_FRONTEND=noninteractive', ...words], { input })
  const apt = ['apt-get', '-q', '-y', '-o', 'DPkg::Lock::Timeout=180']
  const packages = ['install', '--no-install-recommends', ...need.packages]
  const restoreStarts = forbidServiceStarts()
  try {
    if (need.answers) await run(['debconf-set-selections'], need.answers)
    if (!hasPackageLists()) await run([...apt, 'update'])
    let outcome = await run([...apt, ...packages])
    if (outcome.status !== 0) {
      await run([...apt, 'update']) // the lists may be older than the archive
      outcome = await run([...apt, ...packages])
    }
    if (outcome.status !== 0)
      throw new EngineMissing(
        `apt-get could not install ${need.packages.join(', ')}. ${wayOut}\n${endOf(outcome, 8)}`,
      )
  } finally {
    restoreStarts()
  }
}

/**
 * Debian starts a daemon as soon as it is installed; ours run beside the system's, not as part of it.
 * policy-rc.d with exit code 101 is Debian's way to say so (invoke-rc.d(8)); one that is there stays.
 */
function forbidServiceStarts(): () => void {
  const file = '/usr/sbin/policy-rc.d'
  if (existsSync(file) || process.getuid?.() !== 0) return () => {}
  writeFileSync(file, '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  const remove = () => rmSync(file, { force: true })
  process.once('exit', remove)
  return () => {
    process.off('exit', remove)
    remove()
  }
}

/** The words before a command that needs root: none for root, sudo where it asks no password. */
async function sudoWords(): Promise<readonly string[] | undefined> {
  if (process.getuid?.() === 0) return []
  if (findCommand('sudo') === undefined) return undefined
  return (await runProgram(['sudo', '-n', 'true'])).status === 0 ? ['sudo', '-n'] : undefined
}

function hasPackageLists(): boolean {
  try {
    return readdirSync('/var/lib/apt/lists').some((name) => name.includes('Packages'))
  } catch {
    return false
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

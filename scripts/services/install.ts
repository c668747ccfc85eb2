/**
 * Makes sure that an engine's commands are on this machine. Debian's own packages are installed when they are
 * missing and we may; everywhere else the error says what a person has to do.
 */
import { spawnSync } from 'node:child_process'
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

/** Installs what is missing. @throws {EngineMissing} when that is not possible here. */
export function ensureInstalled(need: Need): void {
  if (need.commands.every(findCommand)) return
  const wayOut =
    `Install ${need.packages.join(' and ')} (Debian: sudo apt-get install ${need.packages.join(' ')}), ` +
    'or start the engine otherwise (compose.yaml) and name it in the environment (CONTRIBUTING.md, "Engines").'
  if (!findCommand('apt-get')) throw new EngineMissing(`${need.engine} is not installed. ${wayOut}`)
  const sudo = sudoWords()
  if (!sudo)
    throw new EngineMissing(`${need.engine} is not installed, and only root may install it. ${wayOut}`)
  console.error(`installing ${need.packages.join(', ')} for ${need.engine} …`)
  install(need, sudo, wayOut)
  const missing = need.commands.filter((command) => !findCommand(command))
  if (missing.length > 0)
    throw new EngineMissing(`${missing.join(', ')} did not come with the packages. ${wayOut}`)
}

function install(need: Need, sudo: readonly string[], wayOut: string): void {
  const run = (words: readonly string[], input = '') => {
    const [command, ...args] = [...sudo, 'env', 'DEBIAN_FRONTEND=noninteractive', ...words]
    return spawnSync(command as string, args, { input, encoding: 'utf8' })
  }
  const apt = ['apt-get', '-q', '-y', '-o', 'DPkg::Lock::Timeout=180']
  const packages = ['install', '--no-install-recommends', ...need.packages]
  const restoreStarts = forbidServiceStarts()
  try {
    if (need.answers) run(['debconf-set-selections'], need.answers)
    if (!hasPackageLists()) run([...apt, 'update'])
    let outcome = run([...apt, ...packages])
    if (outcome.status !== 0) {
      run([...apt, 'update']) // the lists may be older than the archive
      outcome = run([...apt, ...packages])
    }
    if (outcome.status !== 0) {
      const said = `${outcome.stdout}${outcome.stderr}`.trim().split('\n').slice(-8).join('\n')
      throw new EngineMissing(`apt-get could not install ${need.packages.join(', ')}. ${wayOut}\n${said}`)
    }
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
  return () => rmSync(file, { force: true })
}

/** The words before a command that needs root: none for root, sudo where it asks no password. */
function sudoWords(): readonly string[] | undefined {
  if (process.getuid?.() === 0) return []
  const asked = findCommand('sudo') && spawnSync('sudo', ['-n', 'true'])
  return asked && asked.status === 0 ? ['sudo', '-n'] : undefined
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

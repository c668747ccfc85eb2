/**
 * libfaketime, which gives a process a wall clock of its own that a test can step. It is no server: what tests find in
 * the environment is the library that a process is to be started with.
 */
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { EngineMissing, ensureInstalled } from './install.ts'
import type { Service } from './service.ts'

/** Where Linux keeps shared memory. */
const sharedMemory = '/dev/shm'
/** Processes that a test has started ended before this, ms; they use the memory that one of them has named. */
const usedMs = 15 * 60_000
const library = 'faketime/libfaketime.so.1'

/** @throws {EngineMissing} */
export async function startFaketime(): Promise<Service> {
  await ensureInstalled({ engine: 'faketime', commands: ['faketime'], packages: ['faketime'] })
  const path = libraryFolders()
    .map((folder) => join(folder, library))
    .find((file) => existsSync(file))
  if (path === undefined)
    throw new EngineMissing(`faketime is installed, but ${library} is not found in /usr/lib`)
  removeLeftovers()
  const env = { SLUICE_TEST_FAKETIME: path }
  return { name: 'faketime', url: path, env, pid: process.pid, folder: '', stop: async () => {} }
}

/**
 * The library names its shared memory by its process, and leaves it behind where that is killed: a process of another user
 * that got the same number could not start.
 */
function removeLeftovers(): void {
  if (!existsSync(sharedMemory)) return
  for (const name of readdirSync(sharedMemory)) {
    const pid = /^(?:sem\.faketime_sem|faketime_shm)_(\d+)$/.exec(name)?.[1]
    if (pid === undefined || existsSync(`/proc/${pid}`)) continue
    const file = join(sharedMemory, name)
    try {
      if (Date.now() - statSync(file).mtimeMs > usedMs) rmSync(file)
    } catch {} // It is gone, or another user's.
  }
}

/** Debian has a folder for each kind of machine. */
function libraryFolders(): readonly string[] {
  const roots = ['/usr/lib', '/usr/local/lib'].filter((root) => existsSync(root))
  return roots.flatMap((root) => [root, ...readdirSync(root).map((name) => join(root, name))])
}

/**
 * libfaketime, which gives a process a wall clock of its own that a test can step. It is no server: what tests find in
 * the environment is the library that a process is to be started with.
 */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { EngineMissing, ensureInstalled } from './install.ts'
import type { Service } from './service.ts'

const library = 'faketime/libfaketime.so.1'

/** @throws {EngineMissing} */
export async function startFaketime(): Promise<Service> {
  await ensureInstalled({ engine: 'faketime', commands: ['faketime'], packages: ['faketime'] })
  const path = libraryFolders()
    .map((folder) => join(folder, library))
    .find((file) => existsSync(file))
  if (path === undefined)
    throw new EngineMissing(`faketime is installed, but ${library} is not found in /usr/lib`)
  const env = { SLUICE_TEST_FAKETIME: path }
  return { name: 'faketime', url: path, env, pid: process.pid, folder: '', stop: async () => {} }
}

/** Debian has a folder for each kind of machine. */
function libraryFolders(): readonly string[] {
  const roots = ['/usr/lib', '/usr/local/lib'].filter((root) => existsSync(root))
  return roots.flatMap((root) => [root, ...readdirSync(root).map((name) => join(root, name))])
}

/**
 * PostgreSQL as the tests want it: loopback, a port of its own, a temporary folder, and with fsync, so that what is
 * committed survives `crashPostgres`. The server refuses to run as root: there it runs as the user `postgres`.
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { chown } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { EngineMissing, ensureInstalled, findCommand } from './install.ts'
import { freePort } from './port.ts'
import { type Service, type StartOptions, startService } from './service.ts'

const execute = promisify(execFile)

export interface PostgresOptions extends StartOptions {
  /** The same port again, after a restart. */
  readonly port?: number
}

/** Starts a server. Started again with the same `folder` and `port`, it comes back with its data. */
export async function startPostgres(options: PostgresOptions = {}): Promise<Service> {
  if (!programsFolder()) ensureInstalled({ engine: 'postgres', commands: ['psql'], packages: ['postgresql'] })
  return startService('postgres', options, async ({ folder, adopt, until }) => {
    const port = options.port ?? (await freePort())
    const data = dataFolder(folder)
    if (process.getuid?.() === 0) {
      const [uid, gid] = await Promise.all(['-u', '-g'].map(idOfPostgres))
      await chown(folder, uid!, gid!)
    }
    if (!existsSync(data)) await run(`initdb -D ${data} -A trust -U postgres --no-locale -E UTF8 --no-sync`)
    await run(`pg_ctl -D ${data} -w -l ${folder}/postgres.log -o "${flags(port, folder)}" start`)
    adopt(Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]))
    await until('its first answer', async () => isReady(port))
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`
    return { url, env: { SLUICE_TEST_POSTGRES: url } }
  })
}

/** Ends a server as a crash does: nothing is flushed. Started again in its folder, it replays its log. */
export async function crashPostgres({ folder }: Pick<Service, 'folder'>): Promise<void> {
  await run(`pg_ctl -D ${dataFolder(folder)} -w -m immediate stop`)
}

const dataFolder = (folder: string): string => join(folder, 'data')

const flags = (port: number, folder: string): string =>
  `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=${folder} -c max_connections=200`

async function isReady(port: number): Promise<boolean> {
  return await run(`pg_isready -q -h 127.0.0.1 -p ${port}`).then(
    () => true,
    () => false,
  )
}

/** Runs a program of the server, as a user that may. Paths come from mkdtemp and hold nothing to quote. */
async function run(line: string): Promise<void> {
  const command = `${programsFolder()}/${line}`
  const options = { cwd: '/' }
  if (process.getuid?.() === 0) await execute('su', ['postgres', '-s', '/bin/sh', '-c', command], options)
  else await execute('/bin/sh', ['-c', command], options)
}

async function idOfPostgres(which: string): Promise<number> {
  return Number((await execute('id', [which, 'postgres'])).stdout)
}

/** Debian keeps the server's programs out of the path, a folder for each version. */
function programsFolder(): string | undefined {
  const root = '/usr/lib/postgresql'
  const versions = existsSync(root) ? readdirSync(root).toSorted((a, b) => Number(b) - Number(a)) : []
  const folders = versions.map((version) => join(root, version, 'bin'))
  const found = folders.find((folder) => existsSync(join(folder, 'initdb')))
  if (found !== undefined) return found
  const onPath = findCommand('initdb')
  if (onPath !== undefined) return join(onPath, '..')
  if (findCommand('psql')) throw new EngineMissing('postgres: psql is installed, but not the server (initdb)')
  return undefined
}

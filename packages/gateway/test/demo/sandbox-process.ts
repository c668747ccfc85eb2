/** `sluice sandbox` in a process of its own, as a provider of a demonstration. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { SandboxServerOptions } from '../../src/sandbox/server.ts'
import { product } from '../product.ts'

export interface SandboxProcess {
  readonly url: string
  /** Asks a route below `/_sandbox/`. */
  ask<T>(route: string): Promise<T>
  stop(): Promise<void>
}

/** Starts it on free ports; the folder holds the file of its behaviour. */
export async function startSandbox(folder: string, behaviour: SandboxServerOptions): Promise<SandboxProcess> {
  const file = join(folder, 'sandbox.json')
  writeFileSync(file, JSON.stringify(behaviour))
  const ports = ['--port', '0', '--smtp-port', '0']
  const child = spawn(
    process.execPath,
    [...product.args, 'sandbox', '--json', '--behaviour', file, ...ports],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const ended = once(child, 'exit')
  const [line] = (await Promise.race([
    once(createInterface({ input: child.stdout }), 'line'),
    ended.then(() => Promise.reject(new Error('the sandbox has ended at its start'))),
  ])) as [string]
  const { url } = JSON.parse(line) as { readonly url: string }
  return {
    url,
    ask: async <T>(route: string) => (await (await fetch(`${url}/_sandbox/${route}`)).json()) as T,
    async stop() {
      child.kill('SIGTERM')
      await ended
    },
  }
}

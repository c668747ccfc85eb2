/**
 * The memory of a gateway that has nothing to do, as it is published: built, and started by its own command. Linux only.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { serving } from './process.ts'

const root = join(import.meta.dirname, '..')
/** Until the gateway has given back the memory of its start, at its first or second look whether it rests. */
const restMs = 25_000

/** MiB of RSS. */
export async function idleMegabytes(): Promise<number> {
  const built = spawnSync(process.execPath, [join(root, 'scripts/build.ts')], { stdio: 'ignore' })
  if (built.status !== 0) throw new Error('npm run build failed')
  const folder = mkdtempSync(join(tmpdir(), 'sluice-idle-'))
  const main = pathToFileURL(join(root, 'packages/gateway/dist/main.js')).href
  writeFileSync(join(folder, 'start.mjs'), `await (await import('${main}')).runProcess()\n`)
  writeFileSync(join(folder, 'sluice.yaml'), 'http: { port: 0 }\nstore: sqlite:./sluice.db\n')
  const args = [...serving.flags, join(folder, 'start.mjs'), 'serve', '--config', join(folder, 'sluice.yaml')]
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...serving.env, ...process.env },
  })
  try {
    await once(child.stdout, 'data')
    await sleep(restMs)
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))![1]) / 1_024
  } finally {
    child.kill('SIGTERM')
    await once(child, 'exit')
    rmSync(folder, { recursive: true, force: true })
  }
}

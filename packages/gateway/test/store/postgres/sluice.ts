/** Runs a command of `sluice` to its end, in an empty folder. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { product } from '../../product.ts'

export function sluice(args: readonly string[], env: Readonly<Record<string, string>>) {
  const cwd = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
  const { status, stdout, stderr } = spawnSync(process.execPath, [...product.args, ...args], {
    cwd,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...product.env, ...env },
    encoding: 'utf8',
    timeout: 60_000,
  })
  rmSync(cwd, { recursive: true, force: true })
  return { status, out: stdout, err: stderr }
}

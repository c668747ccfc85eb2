/** The product as tests start it: the launcher, or in a whole run the gateway joined to a few files. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

interface Program {
  /** The arguments of Node before those of `sluice`. */
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** Set by scripts/runner/joined-gateway.ts: a command takes 0.3 s of CPU with it, and 0.75 by the launcher. */
const joined = process.env.SLUICE_TEST_GATEWAY

/** Runs any command of `sluice`. */
export const product: Program =
  joined === undefined
    ? { args: [fileURLToPath(new URL('../bin/sluice.js', import.meta.url))], env: {} }
    : {
        args: ['--conditions=sluice-source', '--disable-warning=ExperimentalWarning', joined],
        env: { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? '' },
      }

/**
 * The launcher begins a process that serves anew with these (cli/launcher.test.ts). Here it has them from the start, which
 * takes 40 of 590 ms of CPU from each start of a gateway.
 */
const bounds: { readonly flags: readonly string[]; readonly env: Readonly<Record<string, string>> } =
  JSON.parse(readFileSync(new URL('../bin/serving.json', import.meta.url), 'utf8'))

/** Runs `sluice serve`. */
export const serving: Program = {
  args: [...bounds.flags, ...product.args],
  env: { ...product.env, ...bounds.env, SLUICE_BOUND: '1' },
}

/** The program of a gateway of a test fleet, joined too: a start from its sources takes 0.3 s more of CPU. */
export const fleetProgram: string =
  joined === undefined
    ? fileURLToPath(new URL('./guarantees/fleet-process.ts', import.meta.url))
    : join(dirname(joined), 'fleet-process.js')

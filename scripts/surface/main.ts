/**
 * The public surface of this checkout beside that of another commit: routes, fields and codes of the OpenAPI document,
 * channels of AsyncAPI, keys of the configuration and of a policy, metrics, commands with their options, exports of
 * the library. Prints each name that was added (`+`), is gone (`-`) or changed (`~`). Whatever is gone or changed
 * since a release belongs in CHANGELOG.md.
 *
 *     npm run surface -- --base <commit> [--json]
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { misused, readArguments } from '../runner/arguments.ts'
import { freePort } from '../services/port.ts'
import { checkOut } from './check-out.ts'
import { compare, namesOf, type Surface } from './names.ts'

const root = join(import.meta.dirname, '../..')
const usage = `Usage: npm run surface -- --base <commit> [--json]
  --base <commit>   the commit to compare with
  --json            the differences as JSON`
/** A gateway from the sources of another commit begins to serve within this time, ms. */
const startMs = 30_000

const flags = ['--conditions=sluice-source', '--disable-warning=ExperimentalWarning']
const main = 'packages/gateway/src/main.ts'

/** Answers the text that a command of the gateway prints. */
function printed(folder: string, ...args: readonly string[]): string {
  return execFileSync(process.execPath, [...flags, join(folder, main), ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** Starts a gateway of the folder, and asks it for its documents. */
async function served(folder: string, paths: readonly string[]): Promise<readonly string[]> {
  const port = await freePort()
  const own = mkdtempSync(join(tmpdir(), 'sluice-surface-data-'))
  const gateway = spawn(process.execPath, [...flags, join(folder, main), 'serve'], {
    cwd: own,
    env: { ...process.env, SLUICE_HTTP_PORT: String(port) },
    stdio: 'ignore',
  })
  try {
    const until = performance.now() + startMs
    const base = `http://127.0.0.1:${port}`
    while (
      !(await fetch(`${base}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      ))
    ) {
      if (performance.now() > until || gateway.exitCode !== null)
        throw new Error(`the gateway of ${folder} does not start`)
      await sleep(100)
    }
    return await Promise.all(paths.map(async (path) => (await fetch(`${base}${path}`)).text()))
  } finally {
    if (gateway.exitCode === null) {
      gateway.kill('SIGTERM')
      await once(gateway, 'exit')
    }
    rmSync(own, { recursive: true, force: true })
  }
}

async function surfaceOf(folder: string): Promise<Surface> {
  const [openApi, asyncApi, metrics] = await served(folder, ['/openapi.json', '/asyncapi.json', '/metrics'])
  const commands = /^ {2}([a-z][a-z-]+) /gm
  const listed = [...printed(folder, '--help').matchAll(commands)].map(([, name]) => name!)
  const names = [...new Set(listed)].filter((name) => name !== 'sluice')
  return namesOf({
    openApi: JSON.parse(openApi!),
    asyncApi: JSON.parse(asyncApi!),
    metrics: metrics!,
    config: JSON.parse(printed(folder, 'schema', 'config')),
    policy: JSON.parse(printed(folder, 'schema', 'policy')),
    help: new Map(names.map((name) => [name, printed(folder, name, '--help')])),
    library: await import(join(folder, 'packages/limits/src/index.ts')),
  })
}

const { values } = readArguments(usage, { base: { type: 'string' }, json: { type: 'boolean' } })
const base = values.base ?? misused(usage, 'A commit to compare with is missing.')
const before = checkOut(base)
try {
  const differences = compare(await surfaceOf(before), await surfaceOf(root))
  if (values.json === true) console.log(JSON.stringify(differences, null, 2))
  else {
    for (const { part, sign, name, detail } of differences)
      console.log(`${sign} ${part} ${name}${detail === undefined ? '' : `: ${detail}`}`)
    const count = (sign: string): number => differences.filter((each) => each.sign === sign).length
    console.log(`${count('+')} added, ${count('~')} changed, ${count('-')} gone since ${base}`)
  }
} finally {
  rmSync(before, { recursive: true, force: true })
}

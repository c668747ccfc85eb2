/**
 * Runs a script of this folder with a Node that can: the one that runs this, or the Node 24 that `npm ci` put into
 * node_modules. Plain JavaScript, and the scripts themselves are CommonJS without types (package.json), so that an
 * older Node gets far enough to hand over, or to say what it lacks: of a module in TypeScript it would know nothing
 * but that its extension is unknown.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const wanted = 24
const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Runs `work`, the path of a module beside this file, as the script that was called. */
export async function launch(work) {
  if (Number.parseInt(process.versions.node, 10) >= wanted) {
    await import(new URL(work, import.meta.url).href)
    return
  }
  const bundled = join(root, 'node_modules', '.bin', process.platform === 'win32' ? 'node.cmd' : 'node')
  if (existsSync(bundled)) return relay(bundled)
  const script = relative(process.cwd(), process.argv[1])
  fail(
    `This is Node ${process.versions.node}, and ${script} needs Node ${wanted} or newer. ` +
      `Run "npm ci", which brings Node ${wanted} for most platforms, or install it from https://nodejs.org.`,
  )
}

function relay(command) {
  const child = spawn(command, [...process.execArgv, ...process.argv.slice(1)], { stdio: 'inherit' })
  for (const name of ['SIGINT', 'SIGTERM']) process.on(name, () => child.kill(name))
  child.on('error', (error) => fail(`${command} could not be started: ${error.message}`))
  child.on('exit', (code) => {
    process.exitCode = code ?? 1
  })
}

function fail(message) {
  console.error(message)
  process.exitCode = 1
}

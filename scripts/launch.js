/**
 * Runs a TypeScript file of this project with a Node that can: the one that runs this, or the Node 24 that
 * `npm ci` put into node_modules. Plain JavaScript, so that an older Node gets far enough to say what it lacks.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const wanted = 24
const [script, ...args] = process.argv.slice(2)
const root = dirname(dirname(fileURLToPath(import.meta.url)))

if (!script) fail('Usage: node scripts/launch.js <file.ts> [arguments]')
else if (Number.parseInt(process.versions.node, 10) >= wanted) {
  process.argv.splice(1, 2, resolve(script))
  await import(pathToFileURL(resolve(script)).href)
} else {
  const bundled = join(root, 'node_modules', '.bin', process.platform === 'win32' ? 'node.cmd' : 'node')
  if (existsSync(bundled)) relay(bundled)
  else {
    fail(
      `This is Node ${process.versions.node}, and ${script} needs Node ${wanted} or newer. ` +
        `Run "npm ci", which brings Node ${wanted} for most platforms, or install it from https://nodejs.org.`,
    )
  }
}

function relay(command) {
  const child = spawn(command, [script, ...args], { stdio: 'inherit' })
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

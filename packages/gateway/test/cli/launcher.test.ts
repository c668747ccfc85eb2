import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as after } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { temporaryFolder } from '../config/folder.ts'
import { launcher, olderNode, start } from './process.ts'

const older = olderNode()
const patience = { timeout: 60_000 }
const needsOlder = { ...patience, skip: older === undefined ? 'no Node from 20 to 23 is on the PATH' : false }

/** True while the gateway answers. */
async function answers(url: string): Promise<boolean> {
  return fetch(`${url}/healthz`).then(
    () => true,
    () => false,
  )
}

async function serveOn(t: TestContext, node: string) {
  const started = start(t, ['serve', '--json'], {
    node,
    cwd: temporaryFolder(t),
    env: { SLUICE_HTTP_PORT: '0' },
  })
  const { url } = JSON.parse(await started.firstLine) as { url: string }
  return { ...started, url }
}

/** The lines that are no log lines: warnings of Node, for instance. */
const notLogged = (text: string): readonly string[] =>
  text.split('\n').filter((line) => line !== '' && !/^\{"level":"info",.*\}$/.test(line))

test('a recent enough Node runs one process without warnings', patience, async (t) => {
  const { child, output, url, exit } = await serveOn(t, process.execPath)
  assert.equal(childrenOf(child.pid!)?.length ?? 0, 0)
  assert.ok(await answers(url))
  child.kill('SIGTERM')
  assert.equal((await exit).code, 0)
  assert.deepEqual(notLogged(output.err), [])
})

/** Reads from Linux the bound of each half of a process's young generation, its variable for malloc, and if V8 collects at rest. */
function boundsOf(pid: number): {
  readonly youngMib: number | undefined
  readonly trimBytes: string | undefined
  readonly collectsAtRest: boolean
} {
  const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  const young = /--max-semi-space-size=(\d+)\0/.exec(line)?.[1]
  const variables = readFileSync(`/proc/${pid}/environ`, 'utf8')
  const trimBytes = /(?:^|\0)MALLOC_TRIM_THRESHOLD_=(\d+)\0/.exec(variables)?.[1]
  const collectsAtRest = !line.includes('--no-memory-reducer\0')
  return { youngMib: young === undefined ? undefined : Number(young), trimBytes, collectsAtRest }
}

test('a gateway is started with bounds of its memory, unless the operator says otherwise', {
  ...patience,
  skip: existsSync('/proc/self') ? false : 'there is no /proc',
}, async (t) => {
  const { child, exit } = await serveOn(t, process.execPath)
  assert.deepEqual(boundsOf(child.pid!), { youngMib: 32, trimBytes: '131072', collectsAtRest: false })
  child.kill('SIGTERM')
  assert.equal((await exit).code, 0)
  const own = start(t, ['serve', '--json'], {
    cwd: temporaryFolder(t),
    env: {
      SLUICE_HTTP_PORT: '0',
      NODE_OPTIONS: '--max-semi-space-size=64',
      MALLOC_TRIM_THRESHOLD_: '1000000',
    },
  })
  await own.firstLine
  assert.deepEqual(boundsOf(own.child.pid!), {
    ...{ youngMib: undefined, trimBytes: '1000000', collectsAtRest: false },
  })
})

test('in a checkout without a build the thread for large bodies runs, too', patience, async (t) => {
  // The hook stands for a missing dist/: the packages of the workspace are found by their source only.
  const cwd = temporaryFolder(t, {
    'no-build.mjs': `import { registerHooks } from 'node:module'
registerHooks({
  resolve(specifier, context, next) {
    if (specifier.startsWith('@sluice/') && !context.conditions.includes('sluice-source'))
      throw new Error('there is no build of ' + specifier)
    return next(specifier, context)
  },
})`,
  })
  const { child, firstLine, exit } = start(t, ['serve', '--json'], {
    cwd,
    env: { SLUICE_HTTP_PORT: '0', NODE_OPTIONS: `--import=${pathToFileURL(join(cwd, 'no-build.mjs'))}` },
  })
  const { url } = JSON.parse(await firstLine) as { url: string }
  const response = await fetch(`${url}/api/v1/notifications`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      recipient: { id: 'u', email: 'ada@example.com' },
      channel: 'email',
      content: { subject: 's', text: 'x'.repeat(1_000_000) },
    }),
  })
  assert.equal(response.status, 202, await response.text())
  child.kill('SIGTERM')
  assert.equal((await exit).code, 0)
})

test(
  'an older Node hands over to the bundled one, and signals and exit codes pass through',
  needsOlder,
  async (t) => {
    const { child, output, url, exit } = await serveOn(t, older!)
    const [gateway] = childrenOf(child.pid!) ?? []
    if (gateway !== undefined) assert.equal(boundsOf(gateway).youngMib, 32)
    assert.equal(childrenOf(child.pid!)?.length ?? 1, 1)
    child.kill('SIGTERM')
    assert.deepEqual(await exit, { code: 0, signal: null })
    assert.deepEqual(notLogged(output.err), [])
    assert.equal(await answers(url), false)
    const wrong = start(t, ['nope'], { node: older!, cwd: temporaryFolder(t) })
    assert.deepEqual(await wrong.exit, { code: 2, signal: null })
  },
)

test('only the SQLite warning of some versions of Node is hidden', patience, (t) => {
  // Node's own way of warning is replaced by one that warns at once, and both warnings come when the launcher
  // is in place.
  const folder = temporaryFolder(t, {
    'warn.mjs': `let emit = (warning) => process.stderr.write(warning + '\\n')
Object.defineProperty(process, 'emitWarning', {
  get: () => emit,
  set(placed) {
    emit = placed
    emit('SQLite is an experimental feature and might change at any time', 'ExperimentalWarning')
    emit('something else', 'ExperimentalWarning')
  },
})`,
  })
  const { stderr, stdout } = spawnSync(
    process.execPath,
    ['--import', join(folder, 'warn.mjs'), launcher, 'check'],
    {
      encoding: 'utf8',
      cwd: folder,
      env: {},
    },
  )
  assert.match(stdout, /are valid/)
  assert.equal(stderr, 'something else\n')
})

test(
  'under npm, whose shell passes no signal on, the end of the shell counts as the signal',
  patience,
  async (t) => {
    const cwd = temporaryFolder(t)
    // The command after it keeps the shell from replacing itself by the gateway.
    const shell = spawn('sh', ['-c', `"${process.execPath}" "${launcher}" serve --json; true`], {
      cwd,
      env: { PATH: process.env.PATH ?? '', npm_lifecycle_event: 'start', SLUICE_HTTP_PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.after(() => shell.kill('SIGKILL'))
    const [line] = await once(shell.stdout.setEncoding('utf8'), 'data')
    const { url } = JSON.parse(String(line)) as { url: string }
    const [gateway] = childrenOf(shell.pid!) ?? []
    t.after(() => {
      if (gateway !== undefined && existsSync(`/proc/${gateway}`)) process.kill(gateway, 'SIGKILL')
    })
    shell.kill('SIGTERM')
    for (let tries = 0; tries < 2_000 && (await answers(url)); tries += 1) await after(25)
    assert.equal(await answers(url), false)
  },
)

test('the gateway ends when its launcher is killed', needsOlder, async (t) => {
  const { child, url } = await serveOn(t, older!)
  const [gateway] = childrenOf(child.pid!) ?? []
  t.after(() => {
    if (gateway !== undefined && existsSync(`/proc/${gateway}`)) process.kill(gateway, 'SIGKILL')
  })
  // Waits for the exit and not for the streams: a gateway that lived on would hold them open.
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
  for (let tries = 0; tries < 1_000 && (await answers(url)); tries += 1) await after(20)
  assert.equal(await answers(url), false)
})

test('the launcher says what is missing where it finds no suitable Node', needsOlder, (t) => {
  // Away from the packages the launcher finds no bundled Node, and this PATH has none.
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'bin'))
  copyFileSync(launcher, join(folder, 'bin', 'sluice.mjs'))
  const { status, stderr } = spawnSync(older!, [join(folder, 'bin', 'sluice.mjs'), 'serve'], {
    encoding: 'utf8',
    env: { PATH: '/nowhere' },
  })
  assert.equal(status, 1)
  assert.match(
    stderr,
    /^sluice: Node 24 or newer is needed, this is \d+\.\d+\.\d+, and none of that age was found on the PATH\.\nInstall it from https:\/\/nodejs\.org/,
  )
})

/** Lists the child processes, as Linux reports them. */
function childrenOf(pid: number): readonly number[] | undefined {
  const file = `/proc/${pid}/task/${pid}/children`
  if (!existsSync(file)) return undefined
  return readFileSync(file, 'utf8')
    .split(' ')
    .filter((child) => child !== '')
    .map(Number)
}

test('a long text reaches a slow reader completely', patience, async () => {
  const command = `"${process.execPath}" "${launcher}" schema config | (sleep 0.5; cat)`
  const { stdout } = spawnSync('sh', ['-c', command], { encoding: 'utf8', maxBuffer: 16_777_216 })
  assert.ok(stdout.length > 200_000, `${stdout.length} characters`)
  JSON.parse(stdout)
})

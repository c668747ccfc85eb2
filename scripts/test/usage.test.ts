/** Every script of package.json tells its usage before it does anything, and refuses what it does not know. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Script } from 'node:vm'
import { catalogue, options } from '../../bench/catalogue.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const { scripts } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8')) as {
  scripts: Record<string, string>
}
/** Options of third-party tools answer as they do. */
const ours = Object.entries(scripts).filter(([, command]) => command.startsWith('node '))

function run(command: string, ...args: string[]) {
  const words = [...command.split(' ').slice(1), ...args]
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  return spawnSync(process.execPath, words, { cwd: root, env, encoding: 'utf8', timeout: 20_000 })
}

for (const [name, command] of ours) {
  test(`npm run ${name} -- --help prints its usage and does nothing else`, () => {
    const { status, stdout, stderr } = run(command, '--help')
    assert.equal(status, 0, stderr)
    assert.match(stdout, /^Usage: (npm|sluice) /m)
    assert.ok(stdout.split('\n').length < 50)
    assert.doesNotMatch(stdout, /[✔✖]/)
  })

  test(`npm run ${name} refuses an option that does not exist, with the way out`, () => {
    const { status, stdout, stderr } = run(command, '--no-such-option')
    assert.equal(status, 2, stdout)
    assert.match(stderr, /no-such-option/)
    assert.match(stderr, /Usage: npm |See: sluice /)
    assert.equal(stdout, '')
  })
}

const bench = scripts.bench!

test('the help of the benchmarks names each with a line of its own', () => {
  const lines = run(bench, '--help').stdout.split('\n')
  for (const [name, { what }] of Object.entries(catalogue)) {
    assert.ok(
      lines.some((line) => line.startsWith(`  ${name} `) && line.endsWith(what)),
      name,
    )
  }
  assert.ok(lines.some((line) => line.startsWith('  --rounds <value>')))
})

test('every benchmark of the catalogue exists', () => {
  for (const name of Object.keys(catalogue)) assert.ok(existsSync(`${root}/bench/${name}.ts`), name)
})

test('a benchmark that does not exist is refused with the list', () => {
  const { status, stderr } = run(bench, 'limiter-memry')
  assert.equal(status, 2)
  assert.match(stderr, /^there is no benchmark called limiter-memry: did you mean "limiter-memory"\?/)
  assert.match(stderr, /accept-batch/)
})

test('an option that the benchmark does not take is refused with those that it takes', () => {
  const { status, stderr } = run(bench, 'limiter-memory', '--minutes', '3')
  assert.equal(status, 2)
  assert.match(stderr, /^limiter-memory: Unknown option '--minutes'/)
  assert.match(stderr, /--seconds <value>/)
})

test('options are read over the defaults, and what is no number is refused', () => {
  assert.deepEqual(options('fairness', ['--seconds', '0.5']), { rounds: 2, seconds: 0.5 })
  assert.deepEqual(options('smtp', ['--nodemailer']), { connections: 8, nodemailer: true })
  assert.throws(() => options('fairness', ['--rounds', 'many']), /--rounds wants a number, not "many"/)
})

test('a package that does not exist is not built', () => {
  const { status, stderr } = run(scripts.build!, 'console')
  assert.equal(status, 2)
  assert.match(stderr, /^there is no package "console"/)
})

const called = readdirSync(`${root}/scripts`).filter((name) => name.endsWith('.ts'))
const older = ['/usr/bin/node', '/usr/local/bin/node'].find((path) => {
  const version = existsSync(path) ? spawnSync(path, ['--version'], { encoding: 'utf8' }).stdout : ''
  return version !== '' && Number.parseInt(version.slice(1), 10) < 24
})

for (const name of called) {
  test(`an older Node can read scripts/${name}, and hands it over`, () => {
    // It takes a file for CommonJS and knows no types: what it cannot compile it cannot even explain.
    new Script(readFileSync(`${root}/scripts/${name}`, 'utf8'))
    if (older === undefined) return
    const { status, stdout, stderr } = spawnSync(older, [`scripts/${name}`, '--help'], {
      cwd: root,
      encoding: 'utf8',
    })
    assert.equal(status, 0, stderr)
    assert.match(stdout, /^Usage: npm /m)
  })
}

test('an older Node without ours beside it says what to do', {
  skip: older === undefined && 'none is here',
}, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-old-node-'))
  t.after(() => rmSync(folder, { recursive: true }))
  cpSync(`${root}/scripts`, `${folder}/scripts`, { recursive: true })
  const { status, stderr } = spawnSync(older!, ['scripts/services.ts'], { cwd: folder, encoding: 'utf8' })
  assert.equal(status, 1)
  assert.match(
    stderr,
    /^This is Node \d+\..* and scripts\/services\.ts needs Node 24 or newer\. Run "npm ci"/,
  )
})

/**
 * The runner of test files, on small files that do each thing a test file can do. It runs in a process of its own,
 * because Node's runner does not run inside itself.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { getPriority, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { type Choice, choose } from '../runner/choice.ts'
import type { Queue } from '../runner/files.ts'
import { groupsOf } from '../runner/groups.ts'
import { createReleases, rareFirst } from '../runner/releases.ts'
import { say, type Tally } from '../runner/tally.ts'
import { readTree } from '../tidy/tree.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-runner-'))
after(() => rmSync(root, { recursive: true, force: true }))

function write(files: Record<string, string>): string[] {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }
  return Object.keys(files)
}

/** Runs files through `runFiles`; answers its counts and what it printed. */
function run(
  files: Record<string, string>,
  { queues, ...options }: { readonly queues?: readonly Queue[]; readonly [option: string]: unknown } = {},
): { tally: Tally; lines: string } {
  const runner = new URL('../runner/files.ts', import.meta.url).href
  const groups = write(files).map((file) => [file])
  const given = JSON.stringify({
    root,
    queues: queues ?? [{ groups, atOnce: 2 }],
    strict: false,
    ...options,
  })
  const code = `const { runFiles } = await import(${JSON.stringify(runner)})
    const tally = await runFiles({ ...${given}, print: (line) => console.error(line),
      failed: (lines) => console.error('FAILED ' + lines) })
    console.log(JSON.stringify(tally))`
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  write({ 'driver.mjs': code })
  const { stdout, stderr } = spawnSync(process.execPath, [join(root, 'driver.mjs')], {
    env,
    encoding: 'utf8',
  })
  return { tally: JSON.parse(stdout), lines: stderr }
}

const start = "import { describe, test } from 'node:test'\nimport assert from 'node:assert/strict'\n"

test('passes, failures, skips and subtests are counted, and a suite is not', () => {
  const { tally, lines } = run({
    'a.test.mjs': `${start}console.log('seed 42')
      describe('outer', () => {
        test('right', () => {})
        test('wrong', () => assert.equal(1, 2))
        test('parent', async (t) => { await t.test('child', () => { throw new Error('child broke') }) })
      })
      test('later', { skip: 'no time' }, () => {})`,
    'b.test.mjs': `${start}test('right', () => {})`,
  })
  assert.deepEqual(tally, { passed: 2, failed: 3, skipped: 1 })
  assert.match(lines, /✖ a\.test\.mjs {2}1 passed, 3 failed, 1 skipped/)
  assert.match(lines, /✔ b\.test\.mjs {2}1 passed, 0 failed/)
  assert.match(lines, /✖ outer › wrong \(line \d+\)[\s\S]*1 !== 2/)
  assert.match(lines, /✖ outer › parent › child/)
  assert.match(lines, /seed 42/, 'what a failing file prints is shown')
  assert.match(lines, /FAILED ✖ a\.test\.mjs[\s\S]*1 !== 2[\s\S]*seed 42/)
  assert.doesNotMatch(lines, /FAILED . b\.test\.mjs/)
  assert.doesNotMatch(lines, /node:internal/)
})

test('files of one process are counted together, and a failure names its file', () => {
  const { tally, lines } = run(
    {
      'together/a.test.mjs': `${start}test('right', () => {})`,
      'together/b.test.mjs': `${start}test('wrong', () => assert.equal(1, 2))`,
      'together/c.test.mjs': "throw new Error('at load')",
      'together/d.test.mjs': `${start}test('right too', () => {})`,
    },
    { queues: [{ groups: [['a', 'b', 'c', 'd'].map((name) => `together/${name}.test.mjs`)], atOnce: 1 }] },
  )
  assert.deepEqual(tally, { passed: 2, failed: 2, skipped: 0 })
  assert.match(lines, /✖ together\/a\.test\.mjs and 3 more {2}2 passed, 2 failed/)
  assert.match(lines, /✖ wrong \(.*together\/b\.test\.mjs, line \d+\)[\s\S]*1 !== 2/)
  assert.match(lines, /✖ .*together\/c\.test\.mjs.*[\s\S]*at load/)
})

test('queues run beside each other, each with its own number at once, priority and temporary files', () => {
  const record = JSON.stringify(join(root, 'order'))
  /** Notes its begin and its end, which waits for the begin of another. */
  const file = (
    name: string,
    other: string,
  ): string => `${start}import { appendFileSync, readFileSync } from 'node:fs'
    import { getPriority, tmpdir } from 'node:os'
    import { setTimeout as sleep } from 'node:timers/promises'
    const note = (what) => appendFileSync(${record}, what + ' ${name} ' + getPriority() + ' ' + tmpdir() + '\\n')
    test('waits', async () => {
      note('+')
      while (!readFileSync(${record}, 'utf8').includes('+ ${other} ')) await sleep(20)
      await sleep(200)
      note('-')
    })`
  const { tally } = run(
    {
      'queues/a.test.mjs': file('a', 'b1'),
      'queues/b1.test.mjs': file('b1', 'b1'),
      'queues/b2.test.mjs': file('b2', 'b3'),
      'queues/b3.test.mjs': file('b3', 'b2'),
    },
    {
      queues: [
        { groups: [['queues/a.test.mjs']], atOnce: 1, temporary: '/elsewhere', niceness: 3 },
        {
          groups: ['b1', 'b2', 'b3'].map((name) => [`queues/${name}.test.mjs`]),
          atOnce: 1,
          atOnceAlone: 2,
        },
      ],
    },
  )
  assert.deepEqual(tally, { passed: 4, failed: 0, skipped: 0 })
  const notes = readFileSync(join(root, 'order'), 'utf8').trim().split('\n')
  const running = new Set<string>()
  for (const [what, name] of notes.map((note) => note.split(' '))) {
    if (what === '+') running.add(name!)
    else running.delete(name!)
    if (running.has('a')) assert.ok(running.size <= 2, [...running].join())
  }
  for (const note of notes) {
    const [, name, priority, folder] = note.split(' ')
    assert.equal(name === 'a', folder === '/elsewhere', note)
    assert.equal(Number(priority), Math.min(19, getPriority() + (name === 'a' ? 3 : 0)), note)
  }
})

test('a free place of all queues goes to the first queue that may take it', () => {
  const record = join(root, 'taken-places')
  const at = JSON.stringify(record)
  /** Notes its begin and its end, which waits for the begin of another. */
  const file = (name: string, other = name): string => `${start}
    import { appendFileSync, readFileSync } from 'node:fs'
    import { setTimeout as sleep } from 'node:timers/promises'
    appendFileSync(${at}, '+ ${name}\\n')
    test('waits', async () => {
      while (!readFileSync(${at}, 'utf8').includes('+ ${other}')) await sleep(20)
      appendFileSync(${at}, '- ${name}\\n')
    })`
  const groups = (...names: readonly string[]) => names.map((name) => [`places/${name}.test.mjs`])
  const { tally } = run(
    {
      'places/a1.test.mjs': file('a1'),
      'places/a2.test.mjs': file('a2'),
      'places/b1.test.mjs': file('b1'),
      'places/b2.test.mjs': file('b2', 'b3'),
      'places/b3.test.mjs': file('b3', 'b2'),
    },
    {
      atOnceMax: 2,
      queues: [
        { groups: groups('a1', 'a2'), atOnce: 1 },
        { groups: groups('b1', 'b2', 'b3'), atOnce: 3 },
      ],
    },
  )
  assert.equal(tally.passed, 5)
  const notes = readFileSync(record, 'utf8').trim().split('\n')
  const running = new Set<string>()
  for (const [what, name] of notes.map((note) => note.split(' '))) {
    if (what === '+') running.add(name!)
    else running.delete(name!)
    assert.ok(running.size <= 2 && !(running.has('a1') && running.has('a2')), notes.join())
  }
  assert.ok(notes.indexOf('- a2') < notes.indexOf('+ b3'), notes.join())
})

test('a file that breaks while it is loaded has failed', () => {
  const { tally, lines } = run({ 'c.test.mjs': "throw new Error('at load')" })
  assert.deepEqual(tally, { passed: 0, failed: 1, skipped: 0 })
  assert.match(lines, /at load/)
})

test('a file that ends with an exit code has failed, whatever its tests said', () => {
  const { tally } = run({
    'd.test.mjs': `${start}test('right', () => {}); process.on('exit', () => { process.exitCode = 3 })`,
  })
  assert.deepEqual(tally, { passed: 1, failed: 1, skipped: 0 })
})

test('an error that no test catches is a failure of its file', () => {
  for (const thrown of [
    'setTimeout(() => { throw new Error("stray") }, 10)',
    'Promise.reject(new Error("stray"))',
  ]) {
    const { tally, lines } = run({
      'g.test.mjs': `${start}test('leaves', () => { ${thrown} }); test('waits', (t, done) => void setTimeout(done, 300))`,
    })
    assert.ok(tally.failed > 0, thrown)
    assert.match(lines, /stray/)
  }
})

test('a file that does not end is stopped and has failed', () => {
  const { tally, lines } = run(
    {
      'e.test.mjs': `${start}test('right', () => {}); test('hangs', () => new Promise(() => setInterval(() => {}, 1000)))`,
    },
    { fileTimeoutMs: 2000 },
  )
  assert.equal(tally.failed, 1)
  assert.match(lines, /did not end within 2 s and was stopped in "hangs"/)
})

test('a test without its engine is skipped, and has failed where nothing may be skipped', () => {
  const files = { 'f.test.mjs': `${start}test('real', { skip: 'needs an engine: redis' }, () => {})` }
  assert.deepEqual(run(files).tally, { passed: 0, failed: 0, skipped: 1 })
  assert.deepEqual(run(files, { strict: true }).tally, { passed: 0, failed: 1, skipped: 0 })
  const suite = `describe('all', { skip: 'needs an engine: redis' }, () => { test('a', () => {}); test('b', () => {}) })`
  const suites = { 's.test.mjs': `${start}${suite}` }
  assert.deepEqual(run(suites).tally, { passed: 0, failed: 0, skipped: 1 })
  assert.deepEqual(run(suites, { strict: true }).tally, { passed: 0, failed: 1, skipped: 0 })
})

test('the times of a run name each file with the CPU of its process and of its children', () => {
  const busy = 'for (let n = 0; n < 1e9; n += 1);'
  write({
    'spins.test.mjs': `${start}import { spawnSync } from 'node:child_process'
      test('spins', () => { ${busy}; spawnSync(process.execPath, ['-e', '${busy}']) })`,
    'waits.test.mjs': `${start}${busy.replace('1e9', '2e8')}; test('waits', (t, done) => void setTimeout(done, 600))`,
  })
  const at = (file: string): string => JSON.stringify(new URL(`../runner/${file}`, import.meta.url).href)
  write({
    'driver.mjs': `const { runFiles } = await import(${at('files.ts')})
      const { startTimes } = await import(${at('times.ts')})
      const times = startTimes(${JSON.stringify(root)})
      const queues = [{ groups: [['waits.test.mjs'], ['spins.test.mjs']], atOnce: 1 }]
      const print = () => {}
      await runFiles({ root: ${JSON.stringify(root)}, queues, strict: false, print, times })
      console.log(times.table())`,
  })
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const { stdout } = spawnSync(process.execPath, [join(root, 'driver.mjs')], { env, encoding: 'utf8' })
  const cpu = (file: string): number => Number(new RegExp(`([\\d.]+)  ${file}$`, 'm').exec(stdout)?.[1])
  assert.ok(cpu('spins.test.mjs') >= 0.3, stdout)
  assert.ok(cpu('waits.test.mjs') > 0 && cpu('waits.test.mjs') < cpu('spins.test.mjs'), stdout)
})

test('groups that need an engine begin when it is there, and the others before', () => {
  const at = (name: string) => JSON.stringify(new URL(`../runner/${name}`, import.meta.url).href)
  write({
    'needs.test.mjs': start,
    'pure.test.mjs': start,
    'driver.mjs': `const { runFiles } = await import(${at('files.ts')})
      const groups = [['needs.test.mjs'], ['pure.test.mjs']]
      let arrive
      const when = new Promise((resolve) => { arrive = resolve })
      const print = (line) => {
        console.log(line)
        if (line.includes('pure')) { console.log('the engine is there'); arrive() }
      }
      const queues = [{ groups, atOnce: 1, later: { groups: new Set([groups[0]]), when } }]
      await runFiles({ root: ${JSON.stringify(root)}, queues, strict: false, print, ended: ([file]) => console.log('ended', file) })`,
  })
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  const { stdout } = spawnSync(process.execPath, [join(root, 'driver.mjs')], { env, encoding: 'utf8' })
  assert.match(stdout, /^ended pure.*\n✔ pure.*\nthe engine is there\nended needs.*\n✔ needs.*\n$/, stdout)
})

test('the last line says what was skipped only when something was', () => {
  assert.equal(say({ passed: 3, failed: 0, skipped: 0 }), '3 passed, 0 failed')
  assert.equal(say({ passed: 3, failed: 1, skipped: 2 }), '3 passed, 1 failed, 2 skipped')
})

test('files are chosen by path, company and engines, the largest first', () => {
  write({
    'packages/a/test/pure.test.ts': '',
    'packages/a/test/near.exact.test.ts': '',
    'packages/a/test/busy.alone.test.ts': '',
    'packages/a/test/two.test.ts': `${'exerciseSeeds'}(2, 1, 15)`,
    'packages/a/test/stores/redis.test.ts': "import './client.ts'",
    'packages/a/test/stores/client.ts': `export const url = process.env.SLUICE_TEST_${'REDIS'}`,
    'packages/a/test/mail.test.ts': `test('x', ${'needs'}('postfix'), () => {})`,
    'packages/a/test/own.crash.test.ts': `import { startRedis } from '../../../scripts/${'services'}/redis.ts'`,
    'scripts/services/redis.ts': '',
    'examples/hello.ts': '',
  })
  const tree = readTree(root)
  const all = choose(tree, { only: [], unit: false })
  assert.deepEqual(all.exact, ['packages/a/test/near.exact.test.ts'])
  assert.deepEqual(all.alone, ['packages/a/test/busy.alone.test.ts'])
  assert.deepEqual(all.crash, ['packages/a/test/own.crash.test.ts'])
  assert.deepEqual(all.seeds, ['packages/a/test/two.test.ts'])
  assert.deepEqual(all.beside, [
    'packages/a/test/mail.test.ts',
    'packages/a/test/stores/redis.test.ts',
    'examples/hello.ts',
    'packages/a/test/pure.test.ts',
  ])
  assert.deepEqual(all.engines, ['redis', 'postfix'])
  assert.deepEqual(choose(tree, { only: ['own'], unit: false }).engines, [], 'it starts its own')
  const unit = choose(tree, { only: ['packages/'], unit: true })
  assert.deepEqual(
    [...unit.beside, ...unit.seeds, ...unit.crash, ...unit.exact, ...unit.alone],
    [
      'packages/a/test/pure.test.ts',
      'packages/a/test/two.test.ts',
      'packages/a/test/near.exact.test.ts',
      'packages/a/test/busy.alone.test.ts',
    ],
  )
  assert.deepEqual(unit.engines, [])
  assert.equal(unit.leftOut.length, 3)
  assert.deepEqual(choose(tree, { only: ['stores'], unit: false }).engines, ['redis'])
})

test('an engine is let go with the last file that looks for it, and begins early where few do', () => {
  const engines = new Map(
    Object.entries({ a: ['redis'], b: ['redis'], c: ['redis'], d: ['redis', 'kafka'], own: [] }).map(
      ([file, names]) => [file, new Set(names)] as const,
    ),
  )
  assert.deepEqual(rareFirst([['pure', 'a'], ['b', 'd'], ['c'], ['own']], engines), [
    ['b', 'd'],
    ['pure', 'a'],
    ['c'],
    ['own'],
  ])
  const ended = createReleases(engines)
  const groups = [['b', 'd'], ['pure', 'a'], ['own'], ['c']]
  assert.deepEqual(groups.map(ended), [['kafka'], [], [], ['redis']])
})

test('long files are a run of their own, and a usual one takes them where they are named', () => {
  write({
    'packages/a/test/short.test.ts': '',
    'packages/a/test/mail.test.ts': `test('x', ${'needs'}('postfix'), () => {})`,
    'packages/a/test/soak.long.test.ts': '',
    'packages/a/test/kills.crash.long.test.ts': '',
  })
  const tree = readTree(root)
  const filesOf = ({ beside, crash, exact, alone }: Choice) =>
    [...beside, ...crash, ...exact, ...alone].sort()
  const usual = choose(tree, { only: ['a/test/short', 'a/test/mail', 'soak'], unit: false })
  assert.equal(filesOf(usual).length, 3)
  const all = choose(tree, { only: [], unit: false })
  assert.ok(!filesOf(all).some((file) => file.includes('.long.')))
  assert.deepEqual([all.longLeftOut, all.needing.has('packages/a/test/mail.test.ts')], [2, true])
  const long = choose(tree, { only: [], unit: false, long: true })
  assert.deepEqual(long.crash, ['packages/a/test/kills.crash.long.test.ts'])
  assert.deepEqual([...long.beside, long.longLeftOut], ['packages/a/test/soak.long.test.ts', 0])
})

test('small files share a process, unless one of them or a helper starts, measures or changes something', () => {
  write({
    'packages/a/test/one.test.ts': `import './helper.ts'`,
    'packages/a/test/helper.ts': '',
    'packages/a/test/two.test.ts': `// process.env.X = 1 is but told of
      import { runs } from './in-process.ts'
      runs(${'process'}.env.RUNS === '1').before()`,
    'packages/a/test/in-process.ts': 'export const runs = () => ({ before: () => {} })',
    'packages/a/test/measures.test.ts': `import './clock.ts'`,
    'packages/a/test/clock.ts': `${'performance'}.now()`,
    'packages/a/test/changes.test.ts': `${'process'}.env.X = '1'`,
    'packages/a/test/large.test.ts': `/* ${'x'.repeat(20_000)} */`,
  })
  const files = ['large', 'measures', 'two', 'changes', 'one'].map(
    (name) => `packages/a/test/${name}.test.ts`,
  )
  const [large, measures, two, changes, one] = files as [string, string, string, string, string]
  assert.deepEqual(groupsOf(readTree(root), files), [[large], [measures], [one, two], [changes]])
})

/**
 * Each structure check, shown to pass on a small sound project and to fail on the one thing it is there for.
 * The project is written into a temporary folder; nothing here depends on the real one.
 */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { importsOf, withoutComments } from '../tidy/imports.ts'
import { tidy } from '../tidy/main.ts'

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

/** A map of these folders of the gateway. */
const naming = (...folders: readonly string[]): string =>
  folders.map((folder) => `| \`packages/gateway/src/${folder}\` | something |\n`).join('')

const sound: Readonly<Record<string, string>> = {
  'ARCHITECTURE.md': `# Map\n\n${naming('composition', 'admission', 'store', 'store/memory')} [Home](README.md#the-start)\n`,
  'README.md': '# The start\n',
  'docs/reference/errors.md': '| code | fix |\n|---|---|\n| `NOT_FOUND` | look elsewhere |\n',
  'docs/README.md': '# Pages\n\n[errors](reference/errors.md) [first](decisions/0001-first.md)\n',
  'docs/decisions/0001-first.md': '# 1. First\n',
  'package-lock.json': '{ "packages": {} }\n',
  'packages/gateway/package.json': '{ "type": "module" }',
  'packages/gateway/src/main.ts': "import './gateway.ts'\n",
  'packages/gateway/src/gateway.ts': "import './composition/parts.ts'\n",
  'packages/gateway/src/composition/parts.ts':
    "import '../admission/gate.ts'\nimport '../store/memory/memory.ts'\n",
  'packages/gateway/src/model.ts': 'export type Status = string\n',
  'packages/gateway/src/errors.ts': 'export const errors = { NOT_FOUND: { status: 404 } }\n',
  'packages/gateway/src/ports.ts': "import type { Status } from './model.ts'\nexport type Port = Status\n",
  'packages/gateway/src/admission/gate.ts':
    "import { errors } from '../errors.ts'\nexport const found = errors\n",
  'packages/gateway/src/store/memory/memory.ts':
    "import type { Port } from '../../ports.ts'\nexport type Memory = Port\n",
  'packages/gateway/test/admission/gate.test.ts': "// provokes 'NOT_FOUND'\n",
}

/** Names of the checks that fail on the sound project with these files written over it. */
async function failing(changes: Record<string, string> = {}): Promise<string[]> {
  const root = mkdtempSync(join(tmpdir(), 'sluice-tidy-'))
  folders.push(root)
  for (const [file, text] of Object.entries({ ...sound, ...changes })) {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }
  const outcomes = await tidy(root)
  return outcomes.filter(({ faults }) => faults.length > 0).map(({ name }) => name)
}

const gate = 'packages/gateway/src/admission/gate.ts'
const gateImports = "import { errors } from '../errors.ts'\nexport const found = errors\n"
const inside = 'every module imports only what the architecture allows it'
const pure = 'what decides asks no clock, draws no lots and sets no timer by itself'
const straight = 'no files of a package import each other in a circle'
const documented = 'every error code has a row in the reference, and every row a code'
const short = "the way from POST to the provider's socket is at most 20 files and 3500 lines"
const small = 'no file has more than 400 lines, or grows beyond its recorded size'
const named = 'every file is named by what it is, in kebab-case'
const givenOne = 'every factory of a stage is given its dependencies one by one'
const sentences = 'no comment begins with What, Whether, Of or Those'
const worded = 'files, types and exported names use the words of the glossary'
const listed = 'docs/README.md lists every page, and no two decisions have one number'
const reached = 'every source file is reachable from an entry of its package'

test('a sound project passes every check', async () => {
  assert.deepEqual(await failing(), [])
})

/** The map with this list of files on the way. */
const wayOf = (files: readonly string[]): string =>
  [
    sound['ARCHITECTURE.md'],
    "### The files from POST to the provider's socket\n",
    ...files.map((file, index) => `${index + 1}. [file](${file})`),
    '',
  ].join('\n')

const crimes: readonly [what: string, changes: Record<string, string>, failed: readonly string[]][] = [
  ['a way of 21 files', { 'ARCHITECTURE.md': wayOf(Array<string>(21).fill(gate)) }, [short]],
  [
    'a way of 3,501 lines',
    { 'ARCHITECTURE.md': wayOf([gate]), [gate]: gateImports + '\n'.repeat(3_499) },
    [short, small],
  ],
  [
    'two steps of the schema with one number',
    { 'docs/postgres/migrations/0001-a.sql': '', 'docs/postgres/migrations/0001-b.sql': '' },
    ['no two steps of the schema of PostgreSQL have one number'],
  ],
  ['a way without files', { 'ARCHITECTURE.md': wayOf([]) }, [short]],
  [
    'a stage that imports an adapter',
    { [gate]: `${gateImports}import '../store/memory/memory.ts'\n` },
    [inside, 'adapters are imported by the composition and by tests only'],
  ],
  [
    'a stage that imports an adapter when it is needed',
    { [gate]: `${gateImports}export const later = () => import('../store/memory/memory.ts')\n` },
    [inside, 'adapters are imported by the composition and by tests only'],
  ],
  [
    'an import of something computed',
    { [gate]: `${gateImports}export const later = (name: string) => import(name)\n` },
    [inside],
  ],
  [
    "a stage that imports another stage's inside",
    {
      [gate]: `${gateImports}import '../delivery/pool.ts'\n`,
      'packages/gateway/src/delivery/pool.ts': 'export {}\n',
      'ARCHITECTURE.md': naming('composition', 'admission', 'store', 'store/memory', 'delivery'),
    },
    [inside],
  ],
  [
    'a value taken where only types are allowed',
    {
      'packages/gateway/src/ports.ts':
        "import { errors } from './errors.ts'\nexport type { Status } from './model.ts'\nexport type Port = typeof errors\n",
    },
    [inside],
  ],
  [
    'an adapter that the composition does not choose',
    {
      'packages/gateway/src/gateway.ts':
        "import './composition/parts.ts'\nimport './store/memory/memory.ts'\n",
    },
    [inside],
  ],
  [
    'a composition that somebody else knows',
    { [gate]: `${gateImports}import '../composition/parts.ts'\n` },
    [inside, straight],
  ],
  ['a stage that reads files', { [gate]: `${gateImports}import 'node:fs'\n` }, [inside]],
  ['a stage that uses a package', { [gate]: `${gateImports}import 'yaml'\n` }, [inside]],
  [
    'a part without a place in the table',
    {
      [gate]: `${gateImports}`,
      'packages/gateway/src/gateway.ts': "import './composition/parts.ts'\nimport './oddity.ts'\n",
      'packages/gateway/src/oddity.ts': 'export {}\n',
    },
    [inside],
  ],
  [
    'a circle of imports',
    {
      [gate]: `${gateImports}import { second } from './second.ts'\nexport const first = second\n`,
      'packages/gateway/src/admission/second.ts': "export { third as second } from './third.ts'\n",
      'packages/gateway/src/admission/third.ts': "import './gate.ts'\nexport const third = 3\n",
    },
    [straight],
  ],
  [
    'a circle of imports of types',
    {
      [gate]: `${gateImports}import type { Second } from './second.ts'\nexport type First = Second | 1\n`,
      'packages/gateway/src/admission/second.ts':
        "import type { First } from './gate.ts'\nexport type Second = First[]\n",
    },
    [straight],
  ],
  ['a file that imports itself', { [gate]: `${gateImports}import './gate.ts'\n` }, [straight]],
  ['a decision that asks the clock', { [gate]: `${gateImports}export const now = Date.now()\n` }, [pure]],
  ['a decision that sets a timer', { [gate]: `${gateImports}setTimeout(() => {}, 5)\n` }, [pure]],
  [
    'a folder that the map does not name',
    { 'ARCHITECTURE.md': naming('composition', 'admission', 'store') },
    ['ARCHITECTURE.md names every folder of the packages'],
  ],
  [
    'a folder of which the map has the last name only',
    {
      'ARCHITECTURE.md': `${naming('composition', 'admission', 'store')}The store is the truth; see \`store\`.\n`,
    },
    ['ARCHITECTURE.md names every folder of the packages'],
  ],
  [
    'a folder of the map that is gone',
    { 'ARCHITECTURE.md': naming('composition', 'admission', 'store', 'store/memory', 'delivery') },
    ['ARCHITECTURE.md names every folder of the packages'],
  ],
  ['a missing map', { 'ARCHITECTURE.md': '' }, ['ARCHITECTURE.md names every folder of the packages']],
  ['a file that is too long', { [gate]: gateImports + '//\n'.repeat(400) }, [small]],
  [
    'a recorded file that grew',
    { [gate]: gateImports + '//\n'.repeat(410), 'scripts/tidy-sizes.json': `{ "${gate}": 411 }` },
    [small],
  ],
  ['a record of a file that is gone', { 'scripts/tidy-sizes.json': '{ "packages/gone.ts": 500 }' }, [small]],
  ['a file that is called utils', { 'scripts/time-utils.ts': 'export {}\n' }, [named]],
  [
    'a file with a name that the glossary has replaced',
    {
      [gate]: `${gateImports}import './agenda.ts'\n`,
      'packages/gateway/src/admission/agenda.ts': 'export {}\n',
    },
    [worded],
  ],
  [
    'a type with a name that the glossary has replaced',
    { [gate]: `${gateImports}interface Outlet {}\n` },
    [worded],
  ],
  [
    'a stage that hands its options on whole to a factory',
    { [gate]: `${gateImports}export const later = (options: object) => createQueue(options)\n` },
    [givenOne],
  ],
  [
    'a stage that spreads its options into those of a factory',
    {
      [gate]: `${gateImports}export const later = (options: object) =>\n  createQueue({ found, ...options })\n`,
    },
    [givenOne],
  ],
  [
    'a doc comment that begins with Whether',
    { 'packages/gateway/src/model.ts': '/**\n * Whether it waits.\n */\nexport type Status = string\n' },
    [sentences],
  ],
  [
    'a line comment that begins with What',
    { 'packages/gateway/src/model.ts': '// What waits.\nexport type Status = string\n' },
    [sentences],
  ],
  [
    'an adapter that shares code with what plays its service',
    {
      'packages/gateway/src/composition/parts.ts':
        "import '../admission/gate.ts'\nimport '../store/memory/memory.ts'\nimport '../providers/post/adapter.ts'\n",
      'packages/gateway/src/providers/post/adapter.ts': "import './emulator.ts'\n",
      'packages/gateway/src/providers/post/emulator.ts': 'export {}\n',
      'ARCHITECTURE.md': naming(
        'composition',
        'admission',
        'store',
        'store/memory',
        'providers',
        'providers/post',
      ),
    },
    ['what a sandbox plays of a provider shares no code with its adapter'],
  ],
  ['a file in camel case', { 'scripts/someThing.ts': 'export {}\n' }, [named]],
  ['a file that nothing reaches', { 'packages/gateway/src/admission/left.ts': 'export {}\n' }, [reached]],
  [
    'an asset that nothing names',
    { 'packages/gateway/src/admission/left.sql': 'SELECT 1' },
    ['every source file is reachable from an entry of its package'],
  ],
  [
    'an export of a file that does not exist',
    {
      'packages/gateway/package.json':
        '{ "type": "module", "exports": { ".": { "sluice-source": "./src/index.ts" } } }',
    },
    [reached],
  ],
  ['a code without a row', { 'docs/reference/errors.md': '| code |\n|---|\n' }, [documented]],
  [
    'a row without a code',
    { 'docs/reference/errors.md': `${sound['docs/reference/errors.md']}| \`GONE\` | |\n` },
    [documented],
  ],
  [
    'a code that no test provokes',
    { 'packages/gateway/test/admission/gate.test.ts': '// NOT_FOUND_AT_ALL\n' },
    ['every error code occurs in a test'],
  ],
  ['work that is put off', { 'README.md': `# The start\n${'TO'}DO: more\n` }, ['no text puts its work off']],
  [
    "one machine's folder",
    { 'README.md': `# The start\nsee /${'home'}/ada/sluice\n` },
    ["no text names one machine's folders"],
  ],
  [
    'a lockfile that names a registry',
    { 'package-lock.json': '{ "resolved": "https://registry.example/yaml.tgz" }\n' },
    ['the lockfile names no registry'],
  ],
  [
    'a lockfile without a platform',
    {
      'package-lock.json':
        '{ "packages": { "node_modules/a": { "optionalDependencies": { "a-darwin": "1" } } } }',
    },
    ['the lockfile holds the optional packages of every platform, so that npm ci works'],
  ],
  [
    'a package that Node 20 would be warned of',
    {
      'package-lock.json': JSON.stringify({
        packages: {
          'node_modules/a': { engines: { node: '>=22' } },
          'node_modules/b': { engines: { node: '^18 || >=20.9' } },
          'node_modules/c': { engines: { node: '20.x' } },
          'node_modules/d': { engines: { node: '*' } },
          'node_modules/e': { engines: { node: '^22 || >=24' }, optional: true },
        },
      }),
    },
    ["npm ci warns of no package on Node 20, but for those of the gateway's own Node"],
  ],
  [
    'a link to nowhere',
    { 'README.md': '# The start\n[there](docs/gone.md)\n' },
    ['every relative link in the documents leads somewhere'],
  ],
  [
    'a link to a heading that is gone',
    { 'README.md': '# The end\n' },
    ['every relative link in the documents leads somewhere'],
  ],
  ['a page that is not listed', { 'docs/guides/lost.md': '# Lost\n' }, [listed]],
  [
    'a number that two decisions have',
    {
      'docs/README.md': `${sound['docs/README.md']}[second](decisions/0001-second.md)\n`,
      'docs/decisions/0001-second.md': '# 1. Second\n',
    },
    [listed],
  ],
]

for (const [what, changes, failed] of crimes) {
  test(`${what} is found`, async () => {
    assert.deepEqual(await failing(changes), failed)
  })
}

test('a recorded file may have its recorded size, and shrink', async () => {
  const record = `{ "${gate}": 412 }`
  const lines = (count: number) => gateImports + '//\n'.repeat(count - 2)
  assert.deepEqual(await failing({ [gate]: lines(412), 'scripts/tidy-sizes.json': record }), [])
  assert.deepEqual(await failing({ [gate]: lines(405), 'scripts/tidy-sizes.json': record }), [])
})

test('a worker that is started by its address is not dead', async () => {
  const start = `${sound['packages/gateway/src/store/memory/memory.ts']}export const at = new URL('./worker.ts', import.meta.url)\n`
  const changes = {
    'packages/gateway/src/store/memory/memory.ts': start,
    'packages/gateway/src/store/memory/worker.ts': 'export {}\n',
  }
  assert.deepEqual(await failing(changes), [])
})

test('imports are read in all their forms', () => {
  const text = `
    import 'one'
    import two, { three } from "two"
    import type { Four } from 'four'
    import {
      five,
      type Six,
    } from 'five'
    export * from 'six'
    export type { Seven } from 'seven'
    const eight = await import('eight')
    type Nine = import('nine').Nine
    const ten = await import(\`./\${name}.ts\`)
    import('eleven').then(() => {})
    import type from 'twelve'`
  assert.deepEqual(
    importsOf(text)
      .map(({ specifier, typeOnly }) => (typeOnly ? `type ${specifier}` : specifier))
      .sort(),
    ['?', 'eight', 'eleven', 'five', 'one', 'six', 'twelve', 'two', 'type four', 'type nine', 'type seven'],
  )
  assert.equal(importsOf("\n\nimport 'three'")[0]?.line, 3)
})

test('what stands in comments is no import, and what looks like a comment is none', () => {
  const text = `
    // import 'one'
    /* import('two') */
    /**
     * import { three } from 'three'
     */
    const url = 'http://example.test'; import('four')
    const expression = /[/'"]\\/*/; import('five')
    const ratio = a / b; import('six') // import('seven')`
  assert.deepEqual(
    importsOf(text).map(({ specifier }) => specifier),
    ['four', 'five', 'six'],
  )
  assert.equal(withoutComments('a // b\nc'), 'a     \nc')
})

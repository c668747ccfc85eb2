/**
 * The library as it is published: one ES module for each entry with what they share beside them, one CommonJS module
 * for all of them, and all public types in one file. The code is readable, in lines of at most 120 characters, because
 * an uncaught error prints the line that threw; comments stay where an editor shows them, on what is exported.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { runInNewContext } from 'node:vm'
import { type Declaration, readDeclarations } from './declarations.ts'
import { breakLines } from './lua.ts'

/**
 * Properties of the stores' inner classes, which get names of a letter or two in what is published: users' bundlers
 * shorten variables, and properties they must leave. None may be a name in the public types: the build refuses it.
 */
const innerNames = [
  ...['eventLog', 'eventLogs', 'planLogs', 'chosen', 'names', 'retained', 'windowMsMax', 'counted', 'booked'],
  ...['merged', 'fulls', 'runs', 'isEmpty', 'isAhead', 'keptMs', 'dropUntil', 'dropEmpty', 'learn', 'cover'],
  ...['insertFired', 'removeFired', 'insertBooked', 'removeBooked', 'takeOut', 'putBack', 'low', 'ids'],
  ...[
    'remember',
    'forgetId',
    'attend',
    'expire',
    'sweep',
    'wake',
    'nextMs',
    'noteRemoved',
    'finish',
    'start',
  ],
  ...['insert', 'instantAt', 'endOfRun', 'countBefore', 'dropFirst', 'appendFired', 'splitOff', 'freeFrom'],
  ...['repeated', 'ownFired', 'countsNow', 'instants', 'takeLong', 'bytesMax'],
]

/** Paths of entries in `src/` without their ending: `index`, `middleware/express`. */
export function entriesOf(folder: string): readonly string[] {
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  return Object.values(exports as Record<string, { 'sluice-source'?: string }>).flatMap((conditions) => {
    const source = conditions['sluice-source']
    return source === undefined ? [] : [source.replace('./src/', '').replace(/\.ts$/, '')]
  })
}

/** @param root of the checkout @param declared the folder with the `.d.ts` files that the compiler emitted */
export function bundle(root: string, folder: string, declared: string, outDir: string): void {
  const entries = entriesOf(folder)
  const sources = entries.map((entry) => join(folder, 'src', `${entry}.ts`))
  const common = [
    '--bundle',
    '--platform=node',
    '--target=node20',
    '--packages=external',
    '--log-level=warning',
    // For bundles: shorter words, and no field named before its constructor fills it.
    '--define:Number.POSITIVE_INFINITY=Infinity',
    '--define:Number.NaN=NaN',
    `--mangle-props=^(${innerNames.join('|')})$`,
    '--tsconfig-raw={"compilerOptions":{"useDefineForClassFields":false}}',
  ]
  runEsbuild(root, [
    ...[...sources, ...common, '--splitting', '--format=esm', `--outbase=${join(folder, 'src')}`],
    ...['--chunk-names=shared-[hash]', `--outdir=${outDir}`],
  ])
  // CommonJS knows no splitting: what the entries share stands once, and each entry picks its own from there.
  const all = sources.map((source) => `export * from ${JSON.stringify(source)}`).join('\n')
  const one = ['--format=cjs', '--loader=ts', `--outfile=${join(outDir, 'all.cjs')}`]
  runEsbuild(root, [...common, ...one], { input: all, cwd: root })
  rollUp(entries, declared, outDir)
  for (const file of readdirSync(outDir, { recursive: true, encoding: 'utf8' }))
    if (/\.c?js$/.test(file)) {
      writeFileSync(join(outDir, file), withoutConstants(root, readFileSync(join(outDir, file), 'utf8')))
      format(root, join(outDir, file))
      writeFileSync(join(outDir, file), rearranged(readFileSync(join(outDir, file), 'utf8')))
    }
}

/**
 * Puts a module's numbers where their names stand: no bundler that a user has does it across functions, and a name
 * costs more than most numbers. The rest, scripts too, stays as it is.
 */
function withoutConstants(root: string, code: string): string {
  const shared = /^export \{[^}]*\}/m.exec(code)?.[0] ?? ''
  const numbers: Record<string, number> = {}
  const rest = code.replace(
    /^var (\w+) = ([\w .*+()-]+);\n/gm,
    (line: string, name: string, written: string) => {
      const words = written.match(/\b[A-Za-z_]\w*/g) ?? []
      const isAssigned = new RegExp(`(?<![.\\w])${name}( [-+*/]?= |\\+\\+|--)`, 'g')
      if (!words.every((word) => Object.hasOwn(numbers, word)) || code.match(isAssigned)!.length > 1)
        return line
      numbers[name] = runInNewContext(written, { ...numbers })
      return new RegExp(`\\b${name}\\b`).test(shared) ? line : ''
    },
  )
  const defined = Object.entries(numbers).map(([name, value]) => `--define:${name}=${value}`)
  return runEsbuild(root, ['--platform=node', '--target=node20', '--log-level=warning', ...defined], {
    // One word for both: where users' bundlers keep `const`, as rollup does, two of them cost 60 bytes.
    input: rest.replace(/^(\s*(?:else )?(?:for (?:await )?\()?)const\b/gm, '$1let'),
  })
}

/**
 * Moves the scripts and then the functions in front of the code. Compression looks back 32 kB, and a script in the
 * middle hides half of the code from the other half (150 bytes of a bundle with the Redis limiter). A function becomes
 * a variable with an arrow, which has the same name in a stack trace: minified it needs neither of its two long words
 * (130 bytes), and in front of all other variables it is there when they are made.
 */
function rearranged(code: string): string {
  const [scripts, functions]: [string[], string[]] = [[], []]
  const rest = code
    .replace(/^var script\d* = `([^`]*)`\n/gm, (line: string, quoted: string) => {
      scripts.push(line.replace(quoted, () => breakLines(quoted)))
      return ''
    })
    .replace(
      /^(async )?function (\w+)(\([\s\S]*?\)) (\{\n[\s\S]*?^\})\n/gm,
      (_, isAsync = '', name: string, parameters: string, body: string) => {
        functions.push(`var ${name} = ${isAsync}${parameters} => ${body}\n`)
        return ''
      },
    )
  const start = /^(?:'use strict'\n|import \{[^}]*\} from '[^']*'\n)*/.exec(rest)![0].length
  return [rest.slice(0, start), ...scripts, ...functions, rest.slice(start)].join('')
}

function runEsbuild(
  root: string,
  args: readonly string[],
  options: { input?: string; cwd?: string } = {},
): string {
  const { status, stdout, stderr, error } = spawnSync(join(root, 'node_modules/.bin/esbuild'), args, {
    ...options,
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`esbuild could not bundle:\n${error?.message ?? stderr}`)
  return stdout
}

/** esbuild writes a call on one line, however long it is. */
function format(root: string, file: string): void {
  const args = ['format', '--stdin-file-path=library.js', '--line-width=120']
  const { status, stdout, stderr, error } = spawnSync(join(root, 'node_modules/.bin/biome'), args, {
    cwd: root,
    input: readFileSync(file),
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`biome could not format ${file}:\n${error?.message ?? stderr}`)
  writeFileSync(file, stdout)
}

/**
 * Everything in `types.d.cts`, which ES modules and CommonJS can both name, and for each entry and each of the two a
 * file that says which of it is its own.
 */
function rollUp(entries: readonly string[], declared: string, outDir: string): void {
  const declarations = readDeclarations(declared)
  const doors = new Map(entries.map((entry) => [entry, declarations.exportsOf(`${entry}.d.ts`)]))
  const exported = new Set([...doors.values()].flat())
  const all = declarations.closure([...exported])
  refuseTwins(all)
  const body = all.map((declaration) => published(declaration, exported.has(declaration)))
  const types = [...declarations.foreignOf(all), ...body]
  refuseInnerNames(types.join('\n'))
  write(join(outDir, 'types.d.cts'), types)
  for (const [entry, own] of doors) {
    const named = [...new Set(own)]
    const names = named.map(({ kind, name }) => (isValue(kind) ? name : `type ${name}`))
    const types = `export { ${names.join(', ')} } from '${relative(entry, 'types.cjs')}';`
    write(join(outDir, `${entry}.d.ts`), [types])
    write(join(outDir, `${entry}.d.cts`), [types])
    const values = named.filter(({ kind }) => isValue(kind)).map(({ name }) => name)
    write(join(outDir, `${entry}.cjs`), [
      `'use strict'`,
      `const { ${values.join(', ')} } = require('${relative(entry, 'all.cjs')}')`,
      `module.exports = { ${values.join(', ')} }`,
    ])
  }
}

function relative(entry: string, file: string): string {
  const path = posix.relative(posix.dirname(entry), file)
  return path.startsWith('.') ? path : `./${path}`
}

const isValue = (kind: Declaration['kind']): boolean => kind !== 'interface' && kind !== 'type'

function refuseTwins(all: readonly Declaration[]): void {
  const files = new Map<string, string>()
  for (const { name, file } of all) {
    const other = files.get(name)
    if (other !== undefined) throw new Error(`${name} is declared in ${other} and in ${file}: rename one`)
    files.set(name, file)
  }
}

/** Refuses a name that is shortened and that the public types have too: users would look for it in vain. */
function refuseInnerNames(types: string): void {
  const words = new Set(types.replace(/\/\*[\s\S]*?\*\/|'[^']*'/g, '').match(/\w+/g))
  const found = innerNames.filter((name) => words.has(name))
  if (found.length > 0) throw new Error(`public types name what is shortened: ${found.join(', ')}`)
}

/** Declarations that no entry exports are there for the compiler only, and need no comments. */
function published({ comment, kind, text }: Declaration, isPublic: boolean): string {
  const declare = isValue(kind) ? 'declare ' : ''
  const signatures = text.replace(/^(?=function )/gm, `export ${declare}`)
  const code = kind === 'function' ? signatures : `export ${declare}${text}`
  const whole = isPublic
    ? `${comment === '' ? '' : `${comment}\n`}${code}`
    : code.replace(/\/\*[\s\S]*?\*\/\n?/g, '')
  return whole
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && line !== '*')
    .join('\n')
}

function write(file: string, lines: readonly string[]): void {
  mkdirSync(dirname(file), { recursive: true })
  rmSync(file, { force: true })
  writeFileSync(file, `${lines.join('\n')}\n`)
}

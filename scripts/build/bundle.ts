/**
 * The library as it is published: small. One minified module per entry with what they share beside them, and all
 * public types in one file; comments stay where an editor shows them, on what is exported. The size has a limit that a
 * test holds, so whatever is added has to be worth its bytes.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { type Declaration, readDeclarations } from './declarations.ts'

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
  const args = [
    ...entries.map((entry) => join(folder, 'src', `${entry}.ts`)),
    ...['--bundle', '--splitting', '--minify', '--format=esm', '--platform=node', '--target=node20'],
    ...['--packages=external', '--log-level=warning', `--outbase=${join(folder, 'src')}`],
    ...['--chunk-names=shared-[hash]', `--outdir=${outDir}`],
  ]
  const { status, stderr, error } = spawnSync(join(root, 'node_modules/.bin/esbuild'), args, {
    encoding: 'utf8',
  })
  if (status !== 0) throw new Error(`esbuild could not bundle ${folder}:\n${error?.message ?? stderr}`)
  rollUp(entries, declared, outDir)
}

/** Everything in `types.d.ts`, and for each entry a file that says which of it is its own. */
function rollUp(entries: readonly string[], declared: string, outDir: string): void {
  const declarations = readDeclarations(declared)
  const doors = new Map(entries.map((entry) => [entry, declarations.exportsOf(`${entry}.d.ts`)]))
  const exported = new Set([...doors.values()].flat())
  const all = declarations.closure([...exported])
  refuseTwins(all)
  const body = all.map((declaration) => published(declaration, exported.has(declaration)))
  write(join(outDir, 'types.d.ts'), [...declarations.foreignOf(all), ...body])
  for (const [entry, own] of doors) {
    const names = [...new Set(own)].map(({ kind, name }) => (isValue(kind) ? name : `type ${name}`))
    const from = posix.relative(posix.dirname(entry), 'types.js')
    const path = from.startsWith('.') ? from : `./${from}`
    write(join(outDir, `${entry}.d.ts`), [`export { ${names.join(', ')} } from '${path}';`])
  }
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

/** What no entry exports is there for the compiler only, and needs no comments. */
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

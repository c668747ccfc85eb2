/** The import table, held against every import of the packages, and the purity of what decides. */
import { posix } from 'node:path'
import type { Check, Fault } from './check.ts'
import { covers, type ImportRow, importTable, rowFor } from './import-table.ts'
import { type Import, importsOf, withoutComments } from './imports.ts'
import type { Tree } from './tree.ts'

const tableFile = 'scripts/tidy/import-table.ts'

interface Source {
  readonly file: string
  /** Path from the package's `src/`. */
  readonly path: string
  readonly packageFolder: string
  readonly row: ImportRow | undefined
}

export const importsStayInside: Check = {
  name: 'every module imports only what the architecture allows it',
  faults: (tree) => sources(tree).flatMap((source) => sourceFaults(tree, source)),
}

export const adaptersHaveOneDoor: Check = {
  name: 'adapters are imported by the composition and by tests only',
  faults: (tree) =>
    tree.files
      .filter((file) => /\.tsx?$/.test(file) && !mayKnowAdapters(file))
      .flatMap((file) =>
        importsOf(tree.text(file))
          .filter(({ specifier }) => specifier.startsWith('.'))
          .filter(({ specifier }) => isAdapter(posix.join(posix.dirname(file), specifier)))
          .map(({ specifier, line }) => ({
            where: `${file}:${line}`,
            what: `imports the adapter ${specifier}`,
            wayOut: 'take a port as an argument and let composition/ choose the adapter',
          })),
      ),
}

const adapterFolders = ['adapters', 'providers', 'queue', 'store'].map(
  (folder) => `packages/gateway/src/${folder}/`,
)
const isProviderPart = (path: string) =>
  /\/providers\/(.+\/)?(config|configs|provider-config|emulated-jwt|emulator|emulators)\.ts$/.test(path)
const isAdapter = (path: string) =>
  adapterFolders.some((folder) => path.startsWith(folder)) && !isProviderPart(path)
const mayKnowAdapters = (file: string) =>
  isAdapter(file) ||
  file === 'packages/gateway/src/gateway.ts' ||
  file.startsWith('packages/gateway/src/composition/') ||
  /^(packages\/[^/]+\/test|bench)\//.test(file)

export const emulatorsShareNothing: Check = {
  name: 'what a sandbox plays of a provider shares no code with its adapter',
  faults: (tree) =>
    tree.files
      .filter(
        (file) => /^packages\/gateway\/src\/providers\/[^/]+\/[^/]+\.ts$/.test(file) && !isProviderPart(file),
      )
      .flatMap((file) =>
        importsOf(tree.text(file))
          .filter(({ specifier }) => /(^|\/)(emulators?|emulated-[\w-]+)\.ts$/.test(specifier))
          .map(({ specifier, line }) => ({
            where: `${file}:${line}`,
            what: `imports ${specifier}, which plays the service for tests`,
            wayOut: 'write it twice: a fault that both shared would be seen by no test',
          })),
      ),
}

export const decidingIsPure: Check = {
  name: 'what decides asks no clock, draws no lots and sets no timer by itself',
  faults: (tree) =>
    sources(tree)
      .filter(({ row }) => row && !row.impure)
      .flatMap(({ file }) =>
        withoutComments(tree.text(file))
          .split('\n')
          .flatMap((code, index) => {
            const found = impure.exec(code)
            if (!found) return []
            const wayOut = 'take the value as an argument, or a Clock or Random port'
            return [{ where: `${file}:${index + 1}`, what: `uses ${found[0]}`, wayOut }]
          }),
      ),
}

const impure =
  /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bperformance\.now\b|\bset(?:Timeout|Interval|Immediate)\b|\bqueueMicrotask\b|\bprocess\.(?:env|hrtime|nextTick)\b|\brandom(?:UUID|Bytes|Int)\b|\bfetch\(/

function sources(tree: Tree): Source[] {
  return Object.entries(importTable).flatMap(([packageFolder, rows]) => {
    const start = `${packageFolder}/src/`
    return tree.files
      .filter((file) => file.startsWith(start) && /\.tsx?$/.test(file))
      .map((file) => {
        const path = file.slice(start.length)
        return { file, path, packageFolder, row: rowFor(rows, path) }
      })
  })
}

function sourceFaults(tree: Tree, source: Source): Fault[] {
  const { file, row } = source
  if (!row) {
    const wayOut = `give it a row in ${tableFile} and in ARCHITECTURE.md`
    return [{ where: file, what: 'has no place in the import table', wayOut }]
  }
  return importsOf(tree.text(file)).flatMap((one) => {
    const refusal = refuse(source, row, one)
    if (!refusal) return []
    const what = `imports ${one.specifier}, but ${refusal}`
    return [
      {
        where: `${file}:${one.line}`,
        what,
        wayOut: `ask a port for it, or argue for a change in ${tableFile}`,
      },
    ]
  })
}

/** Why an import is not allowed; undefined when it is. */
function refuse(source: Source, row: ImportRow, { specifier, typeOnly }: Import): string | undefined {
  const name = row.module || 'a file of src/'
  if (specifier === '?') return 'a computed import cannot be checked: name the file'
  if (specifier.startsWith('node:')) {
    if (typeOnly || row.node === 'any' || row.node?.includes(specifier)) return undefined
    return `${name} may not use ${row.node ? 'this part of Node' : 'Node'}`
  }
  if (!specifier.startsWith('.')) {
    if (row.packages === 'any' || row.packages?.includes(packageName(specifier))) return undefined
    if (typeOnly && row.packageTypes === 'any') return undefined
    return `${name} may not use that package`
  }
  const target = posix.join(posix.dirname(source.path), specifier)
  if (target.startsWith('../')) return 'that lies outside its own package: import the package by its name'
  if (row.values === 'any' || isOwn(row, target)) return undefined
  if (row.values.some((module) => covers(module, target))) return undefined
  const asType = row.types === 'any' || row.types?.some((module) => covers(module, target))
  if (asType) return typeOnly ? undefined : `${name} may take types only from there (import type)`
  return `${name} may not`
}

function isOwn(row: ImportRow, target: string): boolean {
  return row.module.endsWith('/') ? target.startsWith(row.module) : covers(row.module, target)
}

function packageName(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** The map and the land agree: ARCHITECTURE.md, the names of files, their sizes, and what is reachable. */
import { existsSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import type { Check, Fault } from './check.ts'
import { closure, withoutComments } from './imports.ts'
import type { Tree } from './tree.ts'

export const mapNamesFolders: Check = {
  name: 'ARCHITECTURE.md names every folder of the packages',
  faults(tree) {
    const map = tree.text('ARCHITECTURE.md')
    if (!map) return [{ where: 'ARCHITECTURE.md', what: 'does not exist', wayOut: 'write it: it is the map' }]
    const folders = tree.files
      .filter((file) => /^packages\/[^/]+\/src\/.+\//.test(file))
      .flatMap((file) => ancestors(posix.dirname(file)))
    // The whole path: a last name alone stands somewhere in the prose, or in the path of another folder.
    const unnamed = [...new Set(folders)]
      .filter((folder) => !map.includes(`\`${folder}\``))
      .map((folder) => ({
        where: 'ARCHITECTURE.md',
        what: `does not name \`${folder}\``,
        wayOut: 'say in one line what the folder is for',
      }))
    const gone = [...map.matchAll(/`(packages\/[^`]+)`/g)]
      .map((match) => match[1]!)
      .filter((path) => !tree.files.some((file) => file === path || file.startsWith(`${path}/`)))
      .map((path) => ({
        where: 'ARCHITECTURE.md',
        what: `names ${path}, which is gone`,
        wayOut: 'take the line out, or name what it became',
      }))
    return [...unnamed, ...gone]
  },
}

/** The folder and those above it, up to but without `packages/<name>/src`. */
function ancestors(folder: string): string[] {
  const parts = folder.split('/')
  return parts.slice(3).map((_, index) => parts.slice(0, index + 4).join('/'))
}

const wayHeading = "### The files from POST to the provider's socket"
const wayFilesMax = 20
const wayLinesMax = 3_500

/** Reads the numbered list below the heading. */
function wayOf(map: string): string[] {
  const [, section] = map.split(`${wayHeading}\n`)
  if (section === undefined) return []
  return [...section.split(/^#/m)[0]!.matchAll(/^\d+\. \[[^\]]*\]\(([^)]+)\)/gm)].map((match) => match[1]!)
}

export const wayIsShort: Check = {
  name: `the way from POST to the provider's socket is at most ${wayFilesMax} files and ${wayLinesMax} lines`,
  faults(tree) {
    const map = tree.text('ARCHITECTURE.md')
    if (!map.includes(wayHeading)) return []
    const way = wayOf(map)
    const lines = way.reduce((sum, file) => sum + tree.text(file).split('\n').length - 1, 0)
    const where = 'ARCHITECTURE.md'
    const wayOut = 'move what the way does not need into files of its own'
    const gone = way.filter((file) => !tree.has(file))
    return [
      ...gone.map((file) => ({
        where,
        what: `names ${file} on the way, which is gone`,
        wayOut: 'name what it became',
      })),
      ...(way.length === 0
        ? [{ where, what: 'lists no file on the way', wayOut: 'list them in order' }]
        : []),
      ...(way.length > wayFilesMax ? [{ where, what: `lists ${way.length} files on the way`, wayOut }] : []),
      ...(lines > wayLinesMax ? [{ where, what: `lists files of ${lines} lines on the way`, wayOut }] : []),
    ]
  },
}

const linesMax = 400
const sizesFile = 'scripts/tidy-sizes.json'
/** Nobody reads a file that a script makes: its sources are looked at. */
const generated = '/** Made of '
const sized = /^(packages|scripts|bench|examples)\/.*\.(ts|tsx|js|lua|sql|css)$/

export const filesStaySmall: Check = {
  name: `no file has more than ${linesMax} lines, or grows beyond its recorded size`,
  faults(tree) {
    const ceilings = readCeilings(tree.root)
    const grown = tree.files
      .filter((file) => sized.test(file) && !tree.text(file).startsWith(generated))
      .map((file) => ({
        file,
        lines: tree.text(file).split('\n').length - 1,
        max: ceilings[file] ?? linesMax,
      }))
      .filter(({ lines, max }) => lines > max)
      .map(({ file, lines, max }) => ({
        where: file,
        what: `has ${lines} lines, ${max} are allowed`,
        wayOut: `split it by what it knows (or, with a reason, record it in ${sizesFile})`,
      }))
    const gone = Object.keys(ceilings)
      .filter((file) => !tree.has(file))
      .map((file) => ({
        where: sizesFile,
        what: `names ${file}, which is gone`,
        wayOut: 'take the line out',
      }))
    return [...grown, ...gone]
  },
}

/** The recorded sizes, each lowered to what the file has now; files that became small enough drop out. */
export function loweredCeilings(tree: Tree): Record<string, number> {
  const entries = Object.entries(readCeilings(tree.root))
    .map(([file, max]): [string, number] => [file, Math.min(max, tree.text(file).split('\n').length - 1)])
    .filter(([, lines]) => lines > linesMax)
  return Object.fromEntries(entries)
}

function readCeilings(root: string): Record<string, number> {
  const file = join(root, sizesFile)
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {}
}

const named = /^(packages|scripts|bench|examples)\//
const emptyNames = /^(utils?|common|helpers?|managers?|misc|shared)$/
/** Dots for what tools look for, an underscore for templates that are part of others. */
const kebab = /^[._]?[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)*$/
const keptNames = new Set(['README.md', 'LICENSE', 'CHANGELOG.md', 'NOTICE'])

export const namesSaySomething: Check = {
  name: 'every file is named by what it is, in kebab-case',
  faults: (tree) =>
    tree.files
      .filter((file) => named.test(file))
      .flatMap((file) => {
        const parts = file.split('/').slice(1)
        const empty = parts.find((part) =>
          part
            .split('.')[0]!
            .split('-')
            .some((word) => emptyNames.test(word)),
        )
        if (empty)
          return [{ where: file, what: `"${empty}" says nothing`, wayOut: 'name it by the noun it holds' }]
        const crooked = parts.find((part) => !kebab.test(part) && !keptNames.has(part))
        return crooked ? [{ where: file, what: `"${crooked}" is not kebab-case`, wayOut: 'rename it' }] : []
      }),
}

export const nothingIsDead: Check = {
  name: 'every source file is reachable from an entry of its package',
  faults(tree) {
    const packages = new Set(tree.files.flatMap((file) => /^(packages\/[^/]+)\/src\//.exec(file)?.[1] ?? []))
    return [...packages].flatMap((folder) => deadFiles(tree, folder))
  },
}

/**
 * Parts of a package that are built with their tests before the composition uses them, each with the reason. A part leaves
 * this list when it is composed.
 */
const builtAhead: Readonly<Record<string, readonly string[]>> = {
  // No configuration key leads to the state in Redis, and to several processes, before all of it is there (decision 0031).
  'packages/gateway': ['adapters/state/redis/', 'delivery/accounts/fleet-', 'config/state-address.ts'],
}

function deadFiles(tree: Tree, folder: string): Fault[] {
  const src = `${folder}/src/`
  const files = tree.files.filter((file) => file.startsWith(src))
  const entries = [...declaredEntries(tree, folder), `${src}main.ts`, `${src}gateway.ts`]
  const ahead = builtAhead[folder] ?? []
  const suites = files.filter((file) =>
    ['conformance/', 'middleware/', ...ahead].some((part) => file.startsWith(`${src}${part}`)),
  )
  const reached = closure(tree, [...entries, ...suites])
  const code = [...reached].map((file) => withoutComments(tree.text(file))).join('\n')
  const isAlive = (file: string) =>
    /\.tsx?$/.test(file)
      ? reached.has(file)
      : code.includes(posix.basename(file)) || folderIsNamed(code, posix.basename(posix.dirname(file)))
  const missing = declaredEntries(tree, folder)
    .filter((file) => !tree.has(file))
    .map((file) => ({
      where: `${folder}/package.json`,
      what: `exports ${file}, which does not exist`,
      wayOut: 'write it or take the export out',
    }))
  const dead = files
    .filter((file) => !isAlive(file))
    .map((file) => ({
      where: file,
      what: 'is reached from no entry (index, main, gateway, middleware, conformance)',
      wayOut: 'use it or delete it',
    }))
  return [...missing, ...dead]
}

/** True if the code holds a path that ends in the folder, from which it reads what lies there. */
function folderIsNamed(code: string, name: string): boolean {
  return new RegExp(`['"\`/]${name}/?['"\`]`).test(code)
}

/** Sources that package.json exports under the condition for development. */
function declaredEntries(tree: Tree, folder: string): string[] {
  const found = tree.text(`${folder}/package.json`).matchAll(/"sluice-source":\s*"\.\/([^"*]+)"/g)
  return [...found].map((match) => `${folder}/${match[1]}`)
}

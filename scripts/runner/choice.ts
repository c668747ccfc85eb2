/**
 * Chooses the test files of a run and their company. Most files run several at once. Files that kill processes
 * (`*.crash.test.ts`) load the disk and run two at once, after them. Files that measure time over real sockets
 * (`*.exact.test.ts`) run alone, one after the other.
 */
import { engines } from '../services/engines.ts'
import { closure, reachedFrom, withoutComments } from '../tidy/imports.ts'
import type { Tree } from '../tidy/tree.ts'

export interface Wish {
  /** Parts of paths; a file that contains one of them is taken. All files, when empty. */
  readonly only: readonly string[]
  /** Leave out what needs an engine. */
  readonly unit: boolean
}

export interface Choice {
  readonly beside: readonly string[]
  readonly crash: readonly string[]
  readonly alone: readonly string[]
  /** Engines that the chosen files look for in the environment. */
  readonly engines: readonly string[]
  /** Files left out because they need an engine. */
  readonly leftOut: readonly string[]
}

/** The library's examples are run by a test of the library, which reads what they print. */
const testFile = /^(packages\/[^/]+|scripts)\/test\/.*\.test\.ts$|^examples\/(?!limits\/).*\.(ts|js)$/
const crashing = /\.crash\.test\.ts$/
const lonely = /\.exact\.test\.ts$/

export function choose(tree: Tree, { only, unit }: Wish): Choice {
  const wished = tree.files
    .filter((file) => testFile.test(file))
    .filter((file) => only.length === 0 || only.some((part) => file.includes(part)))
  const asked = new Map(wished.map((file) => [file, askedOf(tree, file)]))
  const leftOut = unit
    ? wished.filter((file) => asked.get(file)!.engines.size + asked.get(file)!.own > 0)
    : []
  const files = wished.filter((file) => !leftOut.includes(file))
  return {
    beside: files.filter((file) => !lonely.test(file) && !crashing.test(file)),
    crash: files.filter((file) => crashing.test(file)),
    alone: files.filter((file) => lonely.test(file)),
    engines: Object.keys(engines).filter((name) => files.some((file) => asked.get(file)!.engines.has(name))),
    leftOut,
  }
}

/**
 * The needs of a file with all its imports: engines by a variable's name or by `needs('redis')`, and how many
 * it starts on its own.
 */
function askedOf(tree: Tree, file: string): { engines: Set<string>; own: number } {
  const reached = [...closure(tree, [file])]
  const texts = reached.filter((one) => !one.startsWith('scripts/')).concat(file)
  const text = texts.map((one) => withoutComments(tree.text(one))).join('\n')
  const words = new Set(text.match(/\bSLUICE_TEST_\w+/g))
  const called = [...text.matchAll(/\bneeds\(([^)]*)\)/g)].map((match) => match[1]).join()
  const named = Object.entries(engines)
    .filter(([name, { env }]) => env.some((key) => words.has(key)) || called.includes(`'${name}'`))
    .map(([name]) => name)
  const starters = Object.keys(engines).map((name) => `scripts/services/${name}.ts`)
  const own = texts.flatMap((one) => reachedFrom(tree, one)).filter((one) => starters.includes(one)).length
  return { engines: new Set(named), own }
}

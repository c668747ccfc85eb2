/**
 * Chooses the test files of a run, their company and their order. Most files run several at once. Files of seeds of the
 * fleet simulator compute without a wait: one of them runs beside the others. Files that kill
 * processes (`*.crash.test.ts`) load the disk and wait half of the time: one of them runs beside the others. Files that measure time over real
 * sockets (`*.exact.test.ts`) mostly wait and run two at once, with nothing else; those that need the whole machine
 * (`*.alone.test.ts`) run one after the other. Long ones (`*.long.test.ts`, also behind one of these words) are a run of their
 * own: a usual one leaves them out.
 *
 * The largest file of each company begins first: a long one that begins last is waited for by idle cores. On the
 * times of a recorded run that order ends 1 to 2 % behind the longest first, and needs no record of times.
 */
import { engines } from '../services/engines.ts'
import { closure, codeOf, oncePerFile, reachedFrom } from '../tidy/imports.ts'
import type { Tree } from '../tidy/tree.ts'
import type { EnginesByFile } from './releases.ts'

export interface Wish {
  /** Parts of paths; a file that contains one of them is taken. All files, when empty. */
  readonly only: readonly string[]
  /** Take the long files alone. Without it they are left out, unless `only` names them. @defaultValue false */
  readonly long?: boolean
  /** Leave out what needs an engine. */
  readonly unit: boolean
}

export interface Choice {
  readonly beside: readonly string[]
  readonly seeds: readonly string[]
  readonly crash: readonly string[]
  readonly exact: readonly string[]
  readonly alone: readonly string[]
  /** Engines that the chosen files look for in the environment. */
  readonly engines: readonly string[]
  /** The chosen files that need one of these, or start one, with those that they look for. */
  readonly needing: EnginesByFile
  /** Files left out because they need an engine. */
  readonly leftOut: readonly string[]
  /** How many long files were left out. */
  readonly longLeftOut: number
}

/** The library's examples are run by a test of the library, which reads what they print. */
const testFile = /^(packages\/[^/]+|scripts)\/test\/.*\.test\.ts$|^examples\/(?!limits\/).*\.(ts|js)$/
/** Read from the text, as those that need an engine are. */
const seeded = /^exerciseSeeds\(/m
const crashing = /\.crash\.(long\.)?test\.ts$/
const measuring = /\.exact\.(long\.)?test\.ts$/
const lonely = /\.alone\.(long\.)?test\.ts$/
const lasting = /\.long\.test\.ts$/

export function choose(tree: Tree, { only, unit, long = false }: Wish): Choice {
  const named = tree.files
    .filter((file) => testFile.test(file))
    .filter((file) => only.length === 0 || only.some((part) => file.includes(part)))
  const wished = named.filter((file) => (long ? lasting.test(file) : only.length > 0 || !lasting.test(file)))
  const asked = new Map(wished.map((file) => [file, askedOf(tree, file)]))
  const leftOut = unit
    ? wished.filter((file) => asked.get(file)!.engines.size + asked.get(file)!.own > 0)
    : []
  const files = wished
    .filter((file) => !leftOut.includes(file))
    .sort((a, b) => tree.text(b).length - tree.text(a).length)
  const several = files.filter((file) => ![crashing, measuring, lonely].some((kind) => kind.test(file)))
  const isSeeded = (file: string): boolean => seeded.test(tree.text(file))
  return {
    beside: several.filter((file) => !isSeeded(file)),
    seeds: several.filter(isSeeded),
    crash: files.filter((file) => crashing.test(file)),
    // They wait, so their size says nothing: the smallest, of a provider that falls silent, takes the longest by 5 s.
    exact: files.filter((file) => measuring.test(file)).toReversed(),
    alone: files.filter((file) => lonely.test(file)),
    engines: Object.keys(engines).filter((name) => files.some((file) => asked.get(file)!.engines.has(name))),
    needing: new Map(
      files
        .map((file) => [file, asked.get(file)!] as const)
        .filter(([, { engines, own }]) => engines.size + own > 0)
        .map(([file, { engines }]) => [file, engines]),
    ),
    leftOut,
    longLeftOut: long ? 0 : named.length - wished.length,
  }
}

/**
 * The needs of a file with all its imports: engines by a variable's name or by `needs('redis')`, and how many
 * it starts on its own.
 */
function askedOf(tree: Tree, file: string): { engines: Set<string>; own: number } {
  const reached = [...closure(tree, [file])]
  const texts = reached.filter((one) => !one.startsWith('scripts/')).concat(file)
  const own = texts.flatMap((one) => reachedFrom(tree, one)).filter((one) => starters.has(one)).length
  return { engines: new Set(texts.flatMap((one) => enginesNamed(tree, one))), own }
}

const starters = new Set(Object.keys(engines).map((name) => `scripts/services/${name}.ts`))

const enginesNamed = oncePerFile((tree, file): readonly string[] => {
  const code = codeOf(tree, file)
  const words = new Set(code.match(/\bSLUICE_TEST_\w+/g))
  const called = [...code.matchAll(/\bneeds\(([^)]*)\)/g)].map((match) => match[1]).join()
  return Object.entries(engines)
    .filter(([name, { env }]) => env.some((key) => words.has(key)) || called.includes(`'${name}'`))
    .map(([name]) => name)
})

/** Circles of imports: files of one package that import each other cannot be understood, moved or tested alone. */
import { posix } from 'node:path'
import type { Check } from './check.ts'
import { importsOf } from './imports.ts'
import type { Tree } from './tree.ts'

/** Imports of types count too: a circle of types binds files as closely as one of values. */
export const importsHaveNoCircles: Check = {
  name: 'no files of a package import each other in a circle',
  faults: (tree) =>
    circles(tree).map((files) => ({
      where: files[0]!,
      what: `imports itself by a circle: ${[...files, files[0]].join(' → ')}`,
      wayOut: 'move what both need, mostly a type, to a file that imports neither',
    })),
}

/** One shortest circle for each group of files that reach each other (Tarjan's strongly connected components). */
function circles(tree: Tree): string[][] {
  const imports = importsInPackages(tree)
  return components(imports).flatMap((group) => {
    const first = group.sort()[0]!
    const circle = shortestCircle(imports, first, new Set(group))
    return circle ? [circle] : []
  })
}

type ImportGraph = ReadonlyMap<string, readonly string[]>

function importsInPackages(tree: Tree): ImportGraph {
  const files = tree.files.filter((file) => /^packages\/[^/]+\/(src|test)\/.*\.tsx?$/.test(file))
  const known = new Set(files)
  return new Map(
    files.map((file) => {
      const targets = importsOf(tree.text(file))
        .filter(({ specifier }) => specifier.startsWith('.'))
        .map(({ specifier }) => posix.join(posix.dirname(file), specifier))
      return [file, targets.filter((target) => known.has(target))]
    }),
  )
}

function components(imports: ImportGraph): string[][] {
  const index = new Map<string, number>()
  const lowest = new Map<string, number>()
  const open: string[] = []
  const isOpen = new Set<string>()
  const found: string[][] = []
  const visit = (file: string) => {
    index.set(file, index.size)
    lowest.set(file, index.get(file)!)
    open.push(file)
    isOpen.add(file)
    for (const target of imports.get(file) ?? []) {
      if (!index.has(target)) visit(target)
      if (isOpen.has(target)) lowest.set(file, Math.min(lowest.get(file)!, lowest.get(target)!))
    }
    if (lowest.get(file) !== index.get(file)) return
    const group = open.splice(open.indexOf(file))
    for (const member of group) isOpen.delete(member)
    found.push(group)
  }
  for (const file of imports.keys()) if (!index.has(file)) visit(file)
  return found
}

/** The shortest way from a file back to itself within its group, or undefined where there is none. */
function shortestCircle(
  imports: ImportGraph,
  start: string,
  group: ReadonlySet<string>,
): string[] | undefined {
  const importer = new Map<string, string>()
  const waiting = [start]
  for (const file of waiting) {
    for (const target of imports.get(file) ?? []) {
      if (target === start) {
        const circle = [file]
        while (circle[0] !== start) circle.unshift(importer.get(circle[0]!)!)
        return circle
      }
      if (!group.has(target) || importer.has(target)) continue
      importer.set(target, file)
      waiting.push(target)
    }
  }
  return undefined
}

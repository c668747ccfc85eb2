/**
 * Reads what a TypeScript file imports, without a compiler: comments are blanked out by a small scanner that
 * knows strings, templates and regular expressions, and the statements that are left are found by their form.
 */
import { posix } from 'node:path'
import type { Tree } from './tree.ts'

export interface Import {
  readonly specifier: string
  /** Nothing of it is there at run time. */
  readonly typeOnly: boolean
  readonly line: number
}

const statement =
  /^[ \t]*(import|export)\s+(type\s+(?!from\b))?(?:[\w$*{}\s,]*?\bfrom\s*)?['"]([^'"\n]+)['"]/gm
const call =
  /\bimport\s*\(\s*(?:['"`]([^'"`\n$]+)['"`]\s*\)(\s*\.\s*(?!then\b|catch\b|finally\b)\w+)?|[^)]*)/g
/** Files started beside the graph: workers and assets. */
const beside = /\bnew\s+URL\(\s*['"](\.[^'"\n]+)['"]\s*,\s*import\.meta\.url\s*\)/g
/** A worker with the extension of the file that starts it, which is right before and after a build. */
const besideWithOwnExtension =
  /\bnew\s+URL\(\s*`(\.[^`$\n]+)\$\{import\.meta\.url\.slice\(-3\)\}`\s*,\s*import\.meta\.url\s*\)/g

/** All imports of a text; a dynamic import of something computed has the specifier `?`. */
export function importsOf(text: string): Import[] {
  return importsIn(withoutComments(text))
}

function importsIn(code: string): Import[] {
  const lineAt = (index: number) => code.slice(0, index).split('\n').length
  const found: Import[] = []
  for (const match of code.matchAll(statement)) {
    found.push({ specifier: match[3]!, typeOnly: match[2] !== undefined, line: lineAt(match.index) })
  }
  for (const match of code.matchAll(call)) {
    found.push({ specifier: match[1] ?? '?', typeOnly: match[2] !== undefined, line: lineAt(match.index) })
  }
  return found
}

/** Computes `of` once for each file of a tree: most files stand in the closures of hundreds of others. */
export function oncePerFile<T>(of: (tree: Tree, file: string) => T): (tree: Tree, file: string) => T {
  const known = new WeakMap<Tree, Map<string, T>>()
  return (tree, file) => {
    const files = known.get(tree) ?? new Map<string, T>()
    known.set(tree, files)
    if (!files.has(file)) files.set(file, of(tree, file))
    return files.get(file)!
  }
}

/** The text of a file of the tree, its comments replaced by blanks. */
export const codeOf = oncePerFile((tree, file) => withoutComments(tree.text(file)))

/** The files of the tree that one file reaches at run time or for its types. */
export const reachedFrom = oncePerFile((tree, file): readonly string[] => {
  const code = codeOf(tree, file)
  const urls = [
    ...[...code.matchAll(beside)].map((match) => match[1]!),
    ...[...code.matchAll(besideWithOwnExtension)].map((match) => `${match[1]}${posix.extname(file)}`),
  ]
  return [...importsIn(code).map(({ specifier }) => specifier), ...urls]
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => posix.join(posix.dirname(file), specifier))
    .filter((target) => tree.has(target))
})

/** Every file that can be reached from the entries, the entries included. */
export function closure(tree: Tree, entries: readonly string[]): Set<string> {
  const reached = new Set(entries.filter((file) => tree.has(file)))
  for (const file of reached) for (const target of reachedFrom(tree, file)) reached.add(target)
  return reached
}

/** A `/` after one of these begins a regular expression; after anything else it divides. */
const beforeRegExp =
  /(?:^|[(,=:[!&|?{};+\-*%<>~^]|\b(?:return|typeof|case|in|of|do|else|void|yield|await))\s*$/

/** The same text, comments replaced by blanks, line by line. */
export function withoutComments(text: string): string {
  const token =
    /\/\/[^\n]*|\/\*[\s\S]*?\*\/|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\[\s\S]|[^`\\])*`|\//g
  const expression = /\/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*/y
  let code = ''
  let last = 0
  for (let match = token.exec(text); match; match = token.exec(text)) {
    let words = match[0]
    code += text.slice(last, match.index)
    if (words.startsWith('//') || words.startsWith('/*')) words = words.replace(/[^\n]/g, ' ')
    else if (words === '/' && beforeRegExp.test(code.slice(-40))) {
      expression.lastIndex = match.index
      words = expression.exec(text)?.[0] ?? words
    }
    last = match.index + (match[0] === '/' ? words.length : match[0].length)
    token.lastIndex = last
    code += words
  }
  return code + text.slice(last)
}

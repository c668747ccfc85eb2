/**
 * Reads a YAML file as a plain value, with the line of every field. YAML can do more than a configuration
 * should. Input that would be read otherwise than it looks (duplicate keys, keys that are no texts, unknown
 * tags, .inf, .nan, a second document) or costs more than it says (alias bombs, bottomless nesting) is refused.
 */
import {
  type Document,
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
} from 'yaml'

export type Path = readonly (string | number)[]

interface YamlFault {
  readonly path: Path
  readonly message: string
  readonly line?: number
}

export interface YamlFile {
  /** Undefined where the file is empty, or where `faults` has something. */
  readonly value: unknown
  readonly faults: readonly YamlFault[]
  /** The line of the field, or of the object in which it is missing; counted from 1. */
  lineOf(path: Path): number | undefined
}

const charactersMax = 4_194_304
/** Nesting levels at most: a configuration has five, and the parser's recursion ends at some thousands. */
const depthMax = 64
/** Values that aliases may expand to at most. */
const aliasesMax = 1_000

const unsafeKeys = new Set(['__proto__', 'constructor', 'prototype'])

export function parseYaml(text: string): YamlFile {
  if (text.length > charactersMax) return refused(`is larger than ${charactersMax} characters`)
  const lines = new LineCounter()
  const document = parseDocument(text, {
    lineCounter: lines,
    version: '1.2',
    uniqueKeys: true,
    strict: true,
    prettyErrors: false,
  })
  const lineAt = (offset: number): number => lines.linePos(offset).line
  const broken = [...document.errors, ...document.warnings]
  if (broken.some((error) => error.message.startsWith('Maximum call stack')))
    return refused('is nested too deeply')
  if (broken.length > 0) {
    const faults = broken.map((error) => ({
      path: [],
      message: sentence(error.message),
      line: lineAt(error.pos[0]),
    }))
    // A syntax error causes others after it: only those of the first such line are reported.
    return {
      value: undefined,
      faults: faults.filter(({ line }) => line === faults[0]!.line),
      lineOf: () => undefined,
    }
  }
  const faults = walk(document, lineAt)
  if (faults.length > 0) return { value: undefined, faults, lineOf: () => undefined }
  try {
    const value: unknown = document.toJS({ maxAliasCount: aliasesMax })
    return { value: value ?? undefined, faults: [], lineOf: (path) => lineOf(document, path, lineAt) }
  } catch (error) {
    if (error instanceof ReferenceError)
      return refused('its aliases unfold to more than a configuration may hold')
    throw error
  }
}

function refused(message: string): YamlFile {
  return { value: undefined, faults: [{ path: [], message }], lineOf: () => undefined }
}

function sentence(message: string): string {
  return `is not valid YAML: ${message.trim().replace(/\s+/g, ' ')}`
}

/** Finds YAML that the parser accepts and a configuration must not hold. */
function walk(document: Document.Parsed, lineAt: (offset: number) => number): YamlFault[] {
  const faults: YamlFault[] = []
  const lineOfNode = (node: unknown): { line?: number } => {
    const offset = (node as Node | null)?.range?.[0]
    return offset === undefined ? {} : { line: lineAt(offset) }
  }
  const visit = (node: unknown, path: Path, above: readonly unknown[]): void => {
    if (path.length > depthMax) {
      faults.push({
        path: path.slice(0, 4),
        message: `is nested deeper than ${depthMax}`,
        ...lineOfNode(node),
      })
    } else if (isAlias(node)) {
      const target = node.resolve(document)
      if (target !== undefined && above.includes(target))
        faults.push({ path, message: 'is an alias of what it is in', ...lineOfNode(node) })
    } else if (isScalar(node)) {
      const fault = scalarFault(node.value)
      if (fault !== undefined) faults.push({ path, message: fault, ...lineOfNode(node) })
    } else if (isSeq(node)) {
      for (const [index, item] of node.items.entries()) visit(item, [...path, index], [...above, node])
    } else if (isMap(node)) {
      for (const pair of node.items) {
        const key = isScalar(pair.key) ? pair.key.value : undefined
        if (typeof key !== 'string') {
          const written = isScalar(pair.key) ? (pair.key.source ?? '') : ''
          const message = `has a key that is no text; write it in quotes: "${written}"`
          faults.push({ path, message, ...lineOfNode(pair.key) })
        } else if (unsafeKeys.has(key)) {
          faults.push({ path, message: `has the key ${key}, which is never one`, ...lineOfNode(pair.key) })
        } else visit(pair.value, [...path, key], [...above, node])
      }
    }
  }
  visit(document.contents, [], [])
  return faults
}

function scalarFault(value: unknown): string | undefined {
  if (typeof value === 'number' && !Number.isFinite(value)) return 'is not a finite number'
  if (typeof value === 'string' && (value.includes('\u0000') || !value.isWellFormed())) {
    return 'holds NUL or half of a character'
  }
  return undefined
}

function lineOf(
  document: Document.Parsed,
  path: Path,
  lineAt: (offset: number) => number,
): number | undefined {
  let node: unknown = document.contents
  let offset = document.contents?.range?.[0]
  for (const step of path) {
    if (isAlias(node)) node = node.resolve(document)
    if (isMap(node)) {
      const pair = node.items.find((item) => isPair(item) && isScalar(item.key) && item.key.value === step)
      if (pair === undefined) break
      offset = (pair.key as Node).range?.[0] ?? offset
      node = pair.value
    } else if (isSeq(node) && typeof step === 'number' && node.items[step] !== undefined) {
      node = node.items[step]
      offset = (node as Node).range?.[0] ?? offset
    } else break
  }
  return offset === undefined ? undefined : lineAt(offset)
}

/**
 * Shortens Lua. Comments and needless spaces are removed, and variables and fields get short names. A name is given
 * by scope, so that variables that are never visible together share it; those that are written alike share it wherever
 * possible, because compression finds what repeats. Fields of tables that the script makes are shortened too; fields of
 * globals (`redis.call`) and of errors that Redis answers, globals and texts stay as they are. Lua that it does not
 * know is refused.
 */
import { parse } from 'luaparse'

/** A node of luaparse's syntax tree, as far as it is read here. */
interface Node {
  readonly type: string
  /** Offsets of the first character and of the one behind the last. */
  readonly range: readonly [from: number, to: number]
  readonly [field: string]: unknown
}

interface Identifier extends Node {
  readonly name: string
}

export interface Variable {
  readonly name: string
  /** Offset of the declaration, and of the end of its scope. */
  readonly from: number
  readonly to: number
  /** Offsets at which it is named, the declaration first. */
  readonly uses: number[]
  /** Variables of one declaration have one statement. */
  readonly statement: Node
}

interface Scope {
  readonly parent: Scope | undefined
  readonly end: number
  readonly variables: Map<string, Variable>
}

export interface Names {
  readonly variables: readonly Variable[]
  /** Offsets at which each field of our own tables is named. */
  readonly fields: ReadonlyMap<string, readonly number[]>
  readonly globals: ReadonlySet<string>
}

/** Fields of what Redis answers: an error. */
const foreignFields: ReadonlySet<string> = new Set(['err'])

/** Short names that lua-names.ts has found to compress well. */
export interface Wishes {
  /** For each name that variables have, a letter for each of its declarations. */
  readonly variables: Readonly<Record<string, string>>
  readonly fields: Readonly<Record<string, string>>
}

export const noWishes: Wishes = { variables: {}, fields: {} }

/** @throws {Error} for Lua of a kind that is not written here */
export function shortenLua(script: string, wishes = noWishes): string {
  const names = namesOf(script)
  return write(tokensOf(script), shortNames(names, wishes))
}

/** Finds the declaration behind each name. @throws {Error} for Lua of a kind that is not written here */
export function namesOf(script: string): Names {
  const variables: Variable[] = []
  const fields = new Map<string, number[]>()
  const globals = new Set<string>()
  let scope: Scope | undefined

  const find = (name: string): Variable | undefined => {
    for (let each = scope; each !== undefined; each = each.parent) {
      const found = each.variables.get(name)
      if (found !== undefined) return found
    }
    return undefined
  }
  const declare = (identifiers: readonly Node[], statement: Node): void => {
    for (const { type, name, range } of identifiers as readonly Identifier[]) {
      if (type === 'VarargLiteral') continue
      const variable = { name, from: range[0], to: scope!.end, uses: [range[0]], statement }
      variables.push(variable)
      scope!.variables.set(name, variable)
    }
  }
  const within = (node: Node, visitAll: () => void): void => {
    scope = { parent: scope, end: node.range[1], variables: new Map() }
    visitAll()
    scope = scope.parent
  }
  const addField = ({ name, range }: Identifier): void => {
    fields.set(name, [...(fields.get(name) ?? []), range[0]])
  }

  function visit(node: Node): void {
    const child = (field: string): Node => node[field] as Node
    const children = (field: string): readonly Node[] => node[field] as readonly Node[]
    const body = (): void => children('body').forEach(visit)
    switch (node.type) {
      case 'LocalStatement':
        children('init').forEach(visit)
        declare(children('variables'), node)
        break
      case 'FunctionDeclaration':
        if (node.isLocal === true) declare([child('identifier')], node)
        else if (node.identifier !== null) visit(child('identifier'))
        within(node, () => {
          declare(children('parameters'), node)
          body()
        })
        break
      case 'ForNumericStatement':
        for (const field of ['start', 'end', 'step']) if (node[field] !== null) visit(child(field))
        within(node, () => {
          declare([child('variable')], node)
          body()
        })
        break
      case 'ForGenericStatement':
        children('iterators').forEach(visit)
        within(node, () => {
          declare(children('variables'), node)
          body()
        })
        break
      case 'RepeatStatement':
        within(node, () => {
          body()
          visit(child('condition'))
        })
        break
      case 'WhileStatement':
      case 'IfClause':
      case 'ElseifClause':
        visit(child('condition'))
        within(node, body)
        break
      case 'Chunk':
      case 'DoStatement':
      case 'ElseClause':
        within(node, body)
        break
      case 'MemberExpression': {
        if (node.indexer === ':') throw new Error('a method is not known here')
        const [base, field] = [child('base'), child('identifier') as Identifier]
        visit(base)
        const isOurs = base.type !== 'Identifier' || find((base as Identifier).name) !== undefined
        if (isOurs && !foreignFields.has(field.name)) addField(field)
        break
      }
      case 'TableKeyString':
        addField(child('key') as Identifier)
        visit(child('value'))
        break
      case 'Identifier': {
        const { name } = node as Identifier
        const variable = find(name)
        if (variable === undefined) globals.add(name)
        else variable.uses.push(node.range[0])
        break
      }
      default:
        for (const value of Object.values(node))
          for (const each of [value].flat())
            if (typeof (each as Node | null)?.type === 'string') visit(each as Node)
    }
  }

  // Every character is a byte, as Redis reads it.
  const options = { luaVersion: '5.1', ranges: true, comments: false, encodingMode: 'pseudo-latin1' } as const
  const chunk = parse(script, options) as unknown as Node
  visit({ ...chunk, range: [0, script.length] })
  return { variables, fields, globals }
}

/**
 * The short name at each offset at which something is renamed. Wishes are granted where they are possible: after
 * a change of the script some are not, and the others stay.
 */
export function shortNames({ variables, fields, globals }: Names, wishes: Wishes): Map<number, string> {
  const short = new Map<number, string>()
  const rename = (offsets: readonly number[], name: string): void => {
    for (const offset of offsets) short.set(offset, name)
  }
  const usesOf = (group: readonly Variable[]): number => group.reduce((sum, { uses }) => sum + uses.length, 0)
  const groups = [...Map.groupBy(variables, ({ name }) => name).values()].sort(
    (a, b) => usesOf(b) - usesOf(a),
  )
  const holders = new Map<string, Variable[]>()
  const isFree = (name: string, one: Variable): boolean =>
    !globals.has(name) && !holders.get(name)?.some((other) => areInConflict(one, other))
  const hold = (name: string, group: readonly Variable[]): void => {
    holders.set(name, [...(holders.get(name) ?? []), ...group])
    for (const { uses } of group) rename(uses, name)
  }
  const rest = groups.filter((group) => {
    const wished = wishes.variables[group[0]!.name]
    const isGranted =
      wished?.length === group.length && group.every((one, index) => isFree(wished[index]!, one))
    if (isGranted) for (const [index, one] of group.entries()) hold(wished[index]!, [one])
    return !isGranted
  })
  const nameOf = new Map<string, string>()
  for (const group of rest) {
    for (const name of shortest()) {
      if (!group.every((one) => isFree(name, one))) continue
      hold(name, group)
      nameOf.set(group[0]!.name, name)
      break
    }
  }
  // A field is called as was wished, or as the variables of its name are, where no other field is.
  const taken = new Set<string>()
  const unnamed: (readonly number[])[] = []
  for (const [name, offsets] of [...fields].sort(([, a], [, b]) => b.length - a.length)) {
    const own = wishes.fields[name] ?? nameOf.get(name)
    if (own === undefined || taken.has(own)) unnamed.push(offsets)
    else rename(offsets, own)
    if (own !== undefined) taken.add(own)
  }
  const names = shortest()
  for (const offsets of unnamed) {
    let name: string
    do name = names.next().value as string
    while (taken.has(name))
    rename(offsets, name)
  }
  return short
}

/** Tells whether one is named where the other, declared behind it, would hide it. */
export function areInConflict(a: Variable, b: Variable): boolean {
  if (a.statement === b.statement) return true
  const [outer, inner] = a.from < b.from ? [a, b] : [b, a]
  return outer.uses.some((use) => use >= inner.from && use < inner.to)
}

/** The letters that keywords have most often come first, because compression gives them the shortest codes. */
export const letters = 'enltoirdacfushpgkbmvwxyjzqABCDEFGHIJKLMNOPQRSTUVWXYZ'
const keywords = new Set(
  'and break do else elseif end false for function if in local nil not or repeat return then true until while'.split(
    ' ',
  ),
)

function* shortest(): Generator<string> {
  for (const first of ['', ...letters]) {
    for (const last of letters) if (!keywords.has(first + last)) yield first + last
  }
  throw new Error('a script of so many names is not known here')
}

const tokenPattern =
  /\s+|--(?!\[)[^\n]*|(?<word>[A-Za-z_]\w*|\d+(?:\.\d+)?(?:e\d+)?)|(?<text>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")|(?<sign>\.\.\.|\.\.|==|~=|<=|>=|[-+*/%^#<>=(){}[\];:,.])/y

interface Token {
  readonly at: number
  readonly text: string
}

/** @throws {Error} for Lua of a kind that is not written here */
export function tokensOf(script: string): readonly Token[] {
  const tokens: Token[] = []
  for (let at = 0; at < script.length; at = tokenPattern.lastIndex) {
    tokenPattern.lastIndex = at
    const found = tokenPattern.exec(script)
    if (found === null || script.startsWith('[[', at))
      throw new Error(`this is not known here: ${script.slice(at, at + 20)}`)
    const { word, text, sign } = found.groups!
    const token = word ?? text ?? sign
    if (token !== undefined) tokens.push({ at, text: shortNumber(token) })
  }
  return tokens
}

/**
 * A space stands only where two tokens would run into each other, and a line begins with each `local` behind such a
 * space: so that an error of the server, which names the line, leads to a few statements.
 */
export function write(tokens: readonly Token[], names: ReadonlyMap<number, string>): string {
  let written = ''
  let last = ''
  for (const { at, text } of tokens) {
    const next = names.get(at) ?? text
    // Two words, a number and `..`, and two signs that would begin a comment.
    const runs =
      (/\w/.test(last) && /\w/.test(next[0]!)) ||
      (/\d/.test(last) && next[0] === '.') ||
      (last === '-' && next[0] === '-')
    if (runs) written += next === 'local' ? '\n' : ' '
    written += next
    last = next.at(-1)!
  }
  return written
}

/** Writes a whole number with four zeros or more as `864e5`. */
const shortNumber = (token: string): string =>
  token.replace(/^([1-9]\d*?)(0{4,})$/, (_, digits: string, zeros: string) => `${digits}e${zeros.length}`)

/** A node of luaparse's syntax tree, as far as it is read here. */
export interface Node {
  readonly type: string
  readonly name?: string
  readonly operator?: string
  readonly indexer?: string
  readonly raw?: string
  readonly value?: unknown
  readonly isLocal?: boolean
  /** In parentheses a call answers one value. */
  readonly inParens?: boolean
  readonly identifier?: Node | null
  readonly variable?: Node
  readonly start?: Node
  readonly end?: Node
  readonly step?: Node | null
  readonly condition?: Node
  readonly expression?: Node
  readonly base?: Node
  readonly index?: Node
  readonly argument?: Node
  readonly left?: Node
  readonly right?: Node
  readonly key?: Node
  readonly body?: readonly Node[]
  readonly variables?: readonly Node[]
  readonly init?: readonly Node[]
  readonly parameters?: readonly Node[]
  readonly iterators?: readonly Node[]
  readonly clauses?: readonly Node[]
  readonly arguments?: readonly Node[] | Node
  readonly fields?: readonly Node[]
}

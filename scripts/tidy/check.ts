/** What a structure check is: a name, and a pure question to the tree whose answer is a list of faults. */
import type { Tree } from './tree.ts'

export interface Fault {
  /** The file, with `:line` where there is one. */
  readonly where: string
  readonly what: string
  /** What to do about it. */
  readonly wayOut: string
}

export interface Check {
  /** A sentence that is true when the check passes. */
  readonly name: string
  readonly faults: (tree: Tree) => Fault[] | Promise<Fault[]>
}

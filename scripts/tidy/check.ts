/** A structure check: a name, and a pure function of the tree that returns a list of faults. */
import type { Tree } from './tree.ts'

export interface Fault {
  /** The file, with `:line` where there is one. */
  readonly where: string
  readonly what: string
  /** The way to mend the fault. */
  readonly wayOut: string
}

export interface Check {
  /** A sentence that is true when the check passes. */
  readonly name: string
  readonly faults: (tree: Tree) => Fault[] | Promise<Fault[]>
}

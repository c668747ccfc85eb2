/**
 * The suites of other limiters, case by case: each row names in our words what a case of theirs checks, and either
 * checks the same of this library or says why the meaning differs. The rows are run by the tests of this folder and
 * written into docs/reference/peers.md by page.ts. No code and no sentence is theirs.
 */
import assert from 'node:assert/strict'
import { it } from 'node:test'

export interface PeerCase<World> {
  /** The file of their suite, without its ending. */
  readonly file: string
  readonly behaviour: string
  /**
   * How many cases of theirs the row stands for: one per store, or a group that differs for one reason.
   *
   * @defaultValue 1
   */
  readonly cases?: number
  /** Checks the same of this library; of a case that differs, the part that does not. */
  readonly run?: (world: World) => void | Promise<void>
  /** The words of this library, where they are others. */
  readonly by?: string
  /** Why the meaning is another. */
  readonly differs?: string
}

export interface PeerSuite<World> {
  readonly peer: string
  readonly version: string
  readonly cases: readonly PeerCase<World>[]
}

/** Counts the cases that mean the same here. */
export function overlapOf(cases: readonly PeerCase<never>[]): {
  readonly same: number
  readonly all: number
} {
  const sum = (rows: readonly PeerCase<never>[]) => rows.reduce((count, row) => count + (row.cases ?? 1), 0)
  return { same: sum(cases.filter(({ differs }) => differs === undefined)), all: sum(cases) }
}

/** Runs every row that can be run, each in a world of its own. */
export function exercise<World>(
  cases: readonly PeerCase<World>[],
  open: (row: PeerCase<World>) => World | Promise<World>,
): void {
  for (const row of cases) {
    if (row.run === undefined) continue
    const part = row.differs === undefined ? '' : ' (the part that is the same)'
    it(`${row.file}: ${row.behaviour}${part}`, async () => row.run!(await open(row)))
  }
}

/** Prints how far the suites overlap, and finds a row that neither runs nor says why. */
export function tally(suite: PeerSuite<never>): void {
  it(`every case of ${suite.peer} runs or says why it differs`, (t) => {
    for (const { behaviour, run, differs } of suite.cases)
      assert.ok(run !== undefined || differs !== undefined, behaviour)
    const { same, all } = overlapOf(suite.cases)
    t.diagnostic(`${suite.peer}: ${same} of ${all} cases overlap`)
  })
}

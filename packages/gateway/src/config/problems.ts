/**
 * Collects every mistake in the files and variables of a configuration and reports them at once. A problem
 * names the file, the line, the field, and the expected value; a problem of a variable names the variable.
 */
import { type FieldError, SluiceError } from '../errors.ts'

export interface Problem extends FieldError {
  /** The file as shown: relative to the working folder where that is shorter. Absent for a variable. */
  readonly file?: string
}

/** Problems that are listed at most; a file with more is something else than a configuration. */
const problemsMax = 100

export class Problems {
  readonly #found: Problem[] = []

  get found(): readonly Problem[] {
    return this.#found
  }

  /** Keeps the first of two problems of one field: the second nearly always follows from it. */
  add(problem: Problem): void {
    if (this.#found.length >= problemsMax) return
    const known = this.#found.some((other) => other.path === problem.path && other.file === problem.file)
    if (!known || problem.path === '') this.#found.push(problem)
  }

  throwIfAny(code: 'INVALID_CONFIG' | 'INVALID_POLICY' | 'INVALID_SCENARIO'): void {
    if (this.#found.length === 0) return
    const errors = this.#found.toSorted(
      (a, b) => (a.file ?? '').localeCompare(b.file ?? '') || (a.line ?? 0) - (b.line ?? 0),
    )
    throw new SluiceError(code, errors.map(problemText).join('\n'), { errors })
  }
}

/** Formats a problem: `sluice.yaml:12: pools.email.accounts[0].rate: expected …`. */
function problemText(problem: Problem): string {
  const where =
    problem.file === undefined
      ? []
      : [problem.line === undefined ? problem.file : `${problem.file}:${problem.line}`]
  return [...where, ...(problem.path === '' ? [] : [problem.path]), problem.message].join(': ')
}

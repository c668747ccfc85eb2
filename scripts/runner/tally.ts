/** Counts of checks and tests, and how they are said. */
export interface Tally {
  passed: number
  failed: number
  skipped: number
}

export function createTally(): Tally {
  return { passed: 0, failed: 0, skipped: 0 }
}

export function add(sum: Tally, more: Tally): void {
  sum.passed += more.passed
  sum.failed += more.failed
  sum.skipped += more.skipped
}

/** The last line of a run: `12 passed, 0 failed`, and what was skipped when something was. */
export function say({ passed, failed, skipped }: Tally): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}

export function seconds(sinceMs: number, nowMs: number): string {
  return `${((nowMs - sinceMs) / 1000).toFixed(1)} s`
}

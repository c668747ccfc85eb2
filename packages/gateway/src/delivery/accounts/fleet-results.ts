/** Results of calls as they are told to all processes. Pure. */
import type { SendResult } from '../../ports.ts'

/** The result of a call as it is told to all processes, with the id of its account. */
export type Reported = readonly [
  account: string,
  at: number,
  tookMs: number,
  probe: 0 | 1,
  result: SendResult,
]

/** Results that wait to be told, at most: those of calls while the shared state is away. */
const resultsMax = 2_000

/** Adds a result to those that wait to be told. The oldest go first. */
export function keepResult(results: Reported[], result: Reported): void {
  if (results.length === resultsMax) results.shift()
  results.push(result)
}

/** The part of a result by which an account is judged. */
export function judgedPartOf(result: SendResult): SendResult {
  switch (result.outcome) {
    case 'delivered':
      return { outcome: 'delivered' }
    case 'rate_limited':
      return {
        outcome: 'rate_limited',
        detail: '',
        ...(result.retryAfter === undefined ? {} : { retryAfter: result.retryAfter.slice(0, 64) }),
      }
    case 'failed':
    case 'unknown':
      return { outcome: result.outcome, detail: '' } as SendResult
    default:
      return result
  }
}

/** Results of calls as they are told to all processes: each is heard once, also where it was told twice. Pure. */
import type { SendResult } from '../../ports.ts'

/**
 * The result of a call as it is told to all processes, with the id of its account, and the calls under way there of all
 * processes, as whoever has made the call knows them: a judge without calls of its own knows none.
 */
export type Reported = readonly [
  account: string,
  at: number,
  tookMs: number,
  probe: 0 | 1,
  result: SendResult,
  busy: number,
]

/** Results that wait to be told, at most: those of calls while the shared state is away. */
const resultsMax = 2_000

/** Members whose last batch is remembered. */
const membersMax = 1_000

/** The head of a batch: the member that tells it, and its number there. */
type BatchHead = readonly [member: string, number: number]

/** The results of this process that are to be told, and the batches that it has heard. */
export class FleetResults {
  readonly #member: string
  #waiting: Reported[] = []
  /** Told in a question that has no answer yet: it is told again as it was, since it may have been heard. */
  #told: string | undefined
  #number = 0
  /** The number of the last batch of each member. */
  readonly #heard = new Map<string, number>()

  constructor(member: string) {
    this.#member = member
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0 && this.#told === undefined
  }

  /** Adds a result. The oldest go first. */
  add(result: Reported): void {
    if (this.#waiting.length === resultsMax) this.#waiting.shift()
    this.#waiting.push(result)
  }

  /** Returns the batch for the next question; undefined where there is nothing to tell. */
  next(): string | undefined {
    if (this.isEmpty) return undefined
    if (this.#told !== undefined) return this.#told
    this.#number += 1
    const head: BatchHead = [this.#member, this.#number]
    this.#told = JSON.stringify([head, ...this.#waiting])
    this.#waiting = []
    return this.#told
  }

  /** The question with the last batch was answered. */
  answered(): void {
    this.#told = undefined
  }

  /** Returns the results of a batch that was not heard before. */
  hear(batch: string): readonly Reported[] {
    const [head, ...results] = JSON.parse(batch) as readonly [BatchHead?, ...Reported[]]
    // The server has dropped the batch.
    if (head === undefined) return []
    const [member, number] = head
    if (number <= (this.#heard.get(member) ?? 0)) return []
    this.#heard.delete(member)
    if (this.#heard.size >= membersMax) this.#heard.delete(this.#heard.keys().next().value!)
    this.#heard.set(member, number)
    return results
  }
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

/**
 * Follows the servers that count the calls of accounts. Of two processes with different servers each takes for unknown what
 * the other has counted, so a token of the earlier server is not good any more once a later one may count.
 */
import { unavailable } from '../adapters/state/redis/redis-answers.ts'
import type { AccountSlots } from '../ports/account-slots.ts'

export class AccountBirths {
  readonly #expectNewest: () => Promise<void>
  readonly #listeners: (() => void)[] = []
  /** The number of newer servers of which this process has heard. */
  #newer = 0

  /** @param expectNewest reads the newest registrations, and calls `noteNewer` where one is newer */
  constructor(expectNewest: () => Promise<void>) {
    this.#expectNewest = expectNewest
  }

  /** Hears that a newer server is registered than that which has answered so far. */
  noteNewer(): void {
    this.#newer += 1
    for (const listener of this.#listeners) listener()
  }

  /**
   * Follows the questions. Where a newer server is heard of while a question is under way, its answer counts as lost. Where
   * the state of a pool has begun anew, the newest registrations are read: no account has a token then, and so no right to
   * send tells of the newer server.
   */
  followed(slots: AccountSlots): AccountSlots {
    return {
      onEnd: (listener) => {
        this.#listeners.push(listener)
      },
      ask: async (question) => {
        const newer = this.#newer
        const answer = await slots.ask(question)
        if (question.bornAt !== 0 && answer.bornAt !== question.bornAt) void this.#expectNewest()
        if (newer !== this.#newer) throw unavailable(question.pool, 'a newer server counts')
        return answer
      },
    }
  }
}

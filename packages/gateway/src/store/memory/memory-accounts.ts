/** Account records of the in-memory store. */
import type { AccountRecord } from '../../ports.ts'
import { keyOf } from './memory-keys.ts'

export class MemoryAccounts {
  readonly #records = new Map<string, AccountRecord>()

  /** Stores a record; an empty record deletes the previous one. */
  write(record: AccountRecord): void {
    const key = keyOf(record.channel, record.provider, record.account)
    const { blockedUntil, breaker, use } = record
    const isEmpty = blockedUntil === undefined && breaker === undefined && use === undefined
    if (isEmpty) this.#records.delete(key)
    else this.#records.set(key, record)
  }

  all(): readonly AccountRecord[] {
    return [...this.#records.values()]
  }
}

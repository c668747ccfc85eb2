/** Records of accounts and of holds of operators in the in-memory store. */
import type { AccountRecord, HoldRecord, HoldWrite } from '../../ports.ts'
import { keyOf } from './memory-keys.ts'

// ---- accounts

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

/** Holds of operators. */
export class MemoryHolds {
  readonly #records = new Map<string, HoldRecord>()
  #writes = 0

  /** Changes with each write. */
  get mark(): string {
    return String(this.#writes)
  }

  write(write: HoldWrite): void {
    this.#writes += 1
    if (write.kind === 'put') this.#records.set(write.hold.name, write.hold)
    else if (write.until === undefined || write.until === this.#records.get(write.name)?.until)
      this.#records.delete(write.name)
  }

  all(): readonly HoldRecord[] {
    return [...this.#records.values()]
  }
}

/** Holds of operators in the in-memory store. */
import type { HoldRecord, HoldWrite } from '../../ports.ts'

export class MemoryHolds {
  readonly #records = new Map<string, HoldRecord>()
  #writes = 0

  /** Changes with each write. */
  get mark(): string {
    return String(this.#writes)
  }

  write(write: HoldWrite): void {
    this.#writes += 1
    if (write.kind === 'end') this.#records.delete(write.name)
    else this.#records.set(write.hold.name, write.hold)
  }

  all(): readonly HoldRecord[] {
    return [...this.#records.values()]
  }
}

/** Counts the content that a batch reads into memory; content that several notifications share counts once. */
import type { Notification } from '../model.ts'

/** Content that one batch reads into memory, as JSON; notifications beyond it go with the next batch. */
const batchMaxBytes = 16 * 2 ** 20

export const sizeOf = ({ bytes = 0, shared }: Notification): number => bytes + (shared?.bytes ?? 0)

export class BatchSize {
  #bytes = 0
  #contents: Set<string> | undefined

  get isFull(): boolean {
    return this.#bytes >= batchMaxBytes
  }

  add({ bytes = 0, shared }: Notification): void {
    this.#bytes += bytes
    if (shared === undefined) return
    this.#contents ??= new Set()
    if (this.#contents.has(shared.id)) return
    this.#contents.add(shared.id)
    this.#bytes += shared.bytes
  }
}

/** Counts work in flight; one waiter can wait until the count is zero. */
export class InFlightCounter {
  #count = 0
  #onIdle: (() => void) | undefined

  begin(): void {
    this.#count += 1
  }

  end(): void {
    this.#count -= 1
    if (this.#count > 0) return
    this.#onIdle?.()
    this.#onIdle = undefined
  }

  /** Resolves when nothing is in flight. Supports one waiter. */
  async idle(): Promise<void> {
    if (this.#count > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
  }
}

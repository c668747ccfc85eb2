/** What has been set in motion and nobody waits for: its failures are told, and a stop waits for its end. */
export class BackgroundTasks {
  readonly #onError: ((what: string, error: unknown) => void) | undefined
  readonly #running = new Set<Promise<void>>()

  constructor(onError: ((what: string, error: unknown) => void) | undefined) {
    this.#onError = onError
  }

  track(what: string, work: Promise<void>): void {
    const tracked: Promise<void> = work.then(
      () => {
        this.#running.delete(tracked)
      },
      (error) => {
        this.#running.delete(tracked)
        this.#onError?.(what, error)
      },
    )
    this.#running.add(tracked)
  }

  /** Resolves when all of those that run now have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#running)
  }

  /** Resolves when nothing runs any more. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await this.ended()
  }
}

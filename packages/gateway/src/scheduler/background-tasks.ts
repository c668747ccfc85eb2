/** Tracks work that no caller awaits: failures are reported to `onError`, and a stop waits until all have ended. */
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

  /** Resolves when all tasks that run now have ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#running)
  }

  /** Resolves when no task runs any more. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await this.ended()
  }
}

/** Pauses of subjects: newcomers wait in one that is paused until it is resumed as often as it was paused. */
interface Pause {
  depth: number
  readonly over: Promise<void>
  readonly end: () => void
}

/** By the key of the subject; as many as there are subjects in which waiting notifications move up. */
export class Pauses {
  readonly #pauses = new Map<string, Pause>()

  get size(): number {
    return this.#pauses.size
  }

  /** Resolves when the subject is resumed; undefined where it is not paused. */
  over(key: string): Promise<void> | undefined {
    return this.#pauses.get(key)?.over
  }

  pause(key: string): void {
    const known = this.#pauses.get(key)
    if (known !== undefined) {
      known.depth += 1
      return
    }
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#pauses.set(key, { depth: 1, over: promise, end: resolve })
  }

  pauseAll(subjects: readonly { readonly key: string }[]): void {
    for (const { key } of subjects) this.pause(key)
  }

  resumeAll(subjects: readonly { readonly key: string }[]): void {
    for (const { key } of subjects) this.#resume(key)
  }

  #resume(key: string): void {
    const known = this.#pauses.get(key)
    if (known === undefined) return
    known.depth -= 1
    if (known.depth > 0) return
    this.#pauses.delete(key)
    known.end()
  }
}

/**
 * Holds what the limiter's state knows of each subject, up to a number of them: a clock with a second chance (Corbató,
 * 1968), one look-up a question, and nothing is moved. A subject that a question waits for is pinned, and stays until it
 * is answered: another one that is filled meanwhile would push it out.
 */
import { MapWalk } from './map-walk.ts'

/** Places that the hand looks at for a newcomer, until it has found one that was not touched since it came by last. */
const looksPerSubject = 8

export class SubjectCache<Known extends { touched: boolean }> {
  readonly #subjects = new Map<string, Known>()
  /** Number of questions that wait for a subject, by its key. As many as there are questions under way. */
  readonly #pins = new Map<string, number>()
  readonly #max: number
  readonly #mayForget: (key: string, subject: Known) => boolean
  readonly #onForget: (key: string, subject: Known) => void
  readonly #hand = new MapWalk(this.#subjects)

  /**
   * @param mayForget asked before one leaves: false keeps it until the hand comes by again
   * @param onForget called with each subject that leaves
   */
  constructor(
    max: number,
    mayForget: (key: string, subject: Known) => boolean,
    onForget: (key: string, subject: Known) => void,
  ) {
    this.#max = max
    this.#mayForget = mayForget
    this.#onForget = onForget
  }

  get(key: string): Known | undefined {
    return this.#subjects.get(key)
  }

  set(key: string, subject: Known): void {
    this.#subjects.set(key, subject)
    this.#hand.wrote()
  }

  /** Forgets some that were not touched for long, where there are too many. To be called before one is filled. */
  makeRoom(): void {
    for (let look = 0; this.#subjects.size >= this.#max && look < looksPerSubject; look += 1)
      this.#forgetNext()
  }

  pin(of: readonly { readonly subject: { readonly key: string } }[]): void {
    for (const { subject } of of) this.#pins.set(subject.key, (this.#pins.get(subject.key) ?? 0) + 1)
  }

  unpin(of: readonly { readonly subject: { readonly key: string } }[]): void {
    for (const { subject } of of) {
      const left = this.#pins.get(subject.key)! - 1
      if (left === 0) this.#pins.delete(subject.key)
      else this.#pins.set(subject.key, left)
    }
  }

  #forgetNext(): void {
    const next = this.#hand.next()
    if (next === undefined) return
    const [key, subject] = next
    if (subject.touched || this.#pins.has(key) || !this.#mayForget(key, subject)) subject.touched = false
    else {
      this.#subjects.delete(key)
      this.#onForget(key, subject)
    }
  }
}

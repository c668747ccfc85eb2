/**
 * Holds that could not be released because the server of the limits went away, by the recipient in whose limits they stand.
 * They are released before that recipient is decided next: the place of a try that was never accepted would let the
 * notification that came in its stead be dropped, or wait for a window.
 */
import { isStateAway } from '../errors.ts'

export type Step = () => Promise<void>

/** A notification that holds something, or has held it. */
export interface Holder {
  readonly id: string
  readonly tenant: string
  readonly recipient: string | undefined
}

const keyOf = ({ tenant, recipient = '' }: Omit<Holder, 'id'>): string => `${tenant}\n${recipient}`

/** Takes the steps in their order; one that failed is the first of those that are left. Two may take them at once. */
export async function take(steps: Step[]): Promise<void> {
  for (let [step] = steps; step !== undefined; [step] = steps) {
    await step()
    if (steps[0] === step) steps.shift()
  }
}

export class LeftHolds {
  /** The steps that release each hold, by recipient; a recipient without any has no entry. */
  readonly #left = new Map<string, Set<Step[]>>()

  /** Notes what is left of a holder until the returned function is called. */
  add(holder: Holder, steps: Step[]): () => void {
    const key = keyOf(holder)
    const own = this.#left.get(key) ?? new Set()
    this.#left.set(key, own.add(steps))
    return () => {
      own.delete(steps)
      if (own.size === 0 && this.#left.get(key) === own) this.#left.delete(key)
    }
  }

  /**
   * Releases what is left of these recipients, and then does the work. Rejects where the server of the limits is still away.
   */
  before<T>(recipients: () => readonly Omit<Holder, 'id'>[], work: () => Promise<T>): Promise<T> {
    if (this.#left.size === 0) return work()
    const left = recipients().flatMap((each) => [...(this.#left.get(keyOf(each)) ?? [])])
    return left.length === 0 ? work() : this.#release(left).then(work)
  }

  async #release(left: readonly Step[][]): Promise<void> {
    for (const steps of left)
      await take(steps).catch((error: unknown) => {
        // Any other failure is told by the next try in the background.
        if (isStateAway(error)) throw error
      })
  }
}

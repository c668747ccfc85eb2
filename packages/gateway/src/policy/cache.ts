/**
 * A bounded memory of what was made for a key. Two generations: what is asked for moves to the young one; when that
 * is full, it becomes the old one and the former old one is forgotten. So it keeps what is in use, at the price of
 * one or two look-ups, without a list to maintain.
 */
export class Generations<V> {
  readonly #sizeMax: number
  #young = new Map<string, V>()
  #old = new Map<string, V>()

  /** @param sizeMax - entries of each generation; at most twice as many are kept */
  constructor(sizeMax: number) {
    this.#sizeMax = sizeMax
  }

  get(key: string): V | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: string, value: V): void {
    if (this.#young.size >= this.#sizeMax) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }
}

/**
 * A bounded memory of what was made for a key. Two generations: what is asked for moves to the young one; when that
 * is full, it becomes the old one and the former old one is forgotten. So it keeps what is in use, at the price of
 * one or two look-ups, without a list to maintain.
 */
export class Segments<V> {
  readonly #sizeMax: number
  readonly #sizeOf: (value: V, key: string) => number
  #young = new Map<string, V>()
  #old = new Map<string, V>()
  /** Of the young generation. */
  #size = 0

  /**
   * @param sizeMax - of each generation; at most twice as much is kept, and one entry that is larger by itself
   * @param sizeOf - of an entry; left out, entries are counted
   */
  constructor(sizeMax: number, sizeOf: (value: V, key: string) => number = () => 1) {
    this.#sizeMax = sizeMax
    this.#sizeOf = sizeOf
  }

  get(key: string): V | undefined {
    const young = this.#young.get(key)
    if (young !== undefined) return young
    const old = this.#old.get(key)
    if (old !== undefined) this.set(key, old)
    return old
  }

  set(key: string, value: V): void {
    const size = this.#sizeOf(value, key)
    this.#dropYoung(key)
    if (this.#size + size > this.#sizeMax) {
      this.#old = this.#young
      this.#young = new Map()
      this.#size = 0
    }
    this.#young.set(key, value)
    this.#size += size
  }

  delete(key: string): void {
    this.#dropYoung(key)
    this.#old.delete(key)
  }

  #dropYoung(key: string): void {
    const value = this.#young.get(key)
    if (value === undefined) return
    this.#young.delete(key)
    this.#size -= this.#sizeOf(value, key)
  }
}

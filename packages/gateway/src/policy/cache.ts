/**
 * A bounded cache of two generations. A value that is used moves to the young generation; when that is full, it
 * becomes the old one and the former old one is dropped. So values in use stay, at the price of one or two
 * look-ups, without a list to maintain.
 */
export class Segments<V> {
  readonly #sizeMax: number
  readonly #sizeOf: (value: V, key: string) => number
  #young = new Map<string, V>()
  #old = new Map<string, V>()
  /** The size of the young generation. */
  #size = 0

  /**
   * @param sizeMax - the bound of each generation; at most twice as much is kept, and one entry that is larger
   * by itself
   * @param sizeOf - the size of an entry; without it, entries are counted
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

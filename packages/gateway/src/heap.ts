/** A binary min-heap ordered by a number; equal numbers are removed in insertion order. */

interface Entry<T> {
  readonly key: number
  readonly turn: number
  readonly item: T
}

export class Heap<T> {
  readonly #entries: Entry<T>[] = []
  #turns = 0

  get size(): number {
    return this.#entries.length
  }

  get leastKey(): number | undefined {
    return this.#entries[0]?.key
  }

  get least(): T | undefined {
    return this.#entries[0]?.item
  }

  push(key: number, item: T): void {
    const entries = this.#entries
    const entry = { key, turn: this.#turns++, item }
    let index = entries.length
    entries.push(entry)
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (!before(entry, entries[parent]!)) break
      entries[index] = entries[parent]!
      index = parent
    }
    entries[index] = entry
  }

  pop(): T | undefined {
    const entries = this.#entries
    const least = entries[0]
    const last = entries.pop()
    if (least === undefined || last === undefined || entries.length === 0) return least?.item
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= entries.length) break
      if (child + 1 < entries.length && before(entries[child + 1]!, entries[child]!)) child += 1
      if (!before(entries[child]!, last)) break
      entries[index] = entries[child]!
      index = child
    }
    entries[index] = last
    return least.item
  }
}

function before(a: Entry<unknown>, b: Entry<unknown>): boolean {
  return a.key < b.key || (a.key === b.key && a.turn < b.turn)
}

/**
 * Goes round the entries of a map in the order of their insertion, one at each call. A new iterator at each call would walk
 * over what was deleted before. One that rests holds every table that its map has had since, with all entries of that time
 * (1,000 entries, a million changes: 290 MB), so that it is given up once its map was written to as often as it is large.
 */
export class MapWalk<Key, Value> {
  readonly #map: ReadonlyMap<Key, Value>
  #iterator: MapIterator<[Key, Value]> | undefined
  #writes = 0

  constructor(map: ReadonlyMap<Key, Value>) {
    this.#map = map
  }

  /** Returns the next entry; undefined once at the end of each round. */
  next(): [Key, Value] | undefined {
    this.#writes = 0
    this.#iterator ??= this.#map.entries()
    const { value, done } = this.#iterator.next()
    if (done !== true) return value
    this.#iterator = undefined
    return undefined
  }

  /** Notes that the map was written to. */
  wrote(): void {
    if (this.#iterator === undefined) return
    this.#writes += 1
    if (this.#writes > this.#map.size) this.#iterator = undefined
  }
}

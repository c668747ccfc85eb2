/**
 * A sorted log in runs: each instant once, with how many units stand up to and including it. A batch of thousands
 * takes no more room than one, and the unit with a given index is found by halves. It looks like a list of instants
 * to whoever asks with `instantAt`, `countBefore` and `countUntil`.
 */
export class Runs {
  readonly #at: number[] = []
  /** Units up to and including the run, counted from the first that ever stood here: what leaves moves nothing. */
  readonly #ends: number[] = []
  #base = 0

  /** The number of units. */
  get length(): number {
    return this.#at.length === 0 ? 0 : this.#ends[this.#ends.length - 1]! - this.#base
  }

  /** Copies a log, or inserts it into runs that exist. */
  static of(log: readonly number[] | Runs, runs = new Runs()): Runs {
    if (log instanceof Runs)
      log.#at.forEach((at, run) => {
        runs.insert(at, log.#end(run) - log.#end(run - 1))
      })
    else for (const at of log) runs.insert(at, 1)
    return runs
  }

  /** The instant of the unit with this index, which exists. */
  instantAt(index: number): number {
    return this.#at[this.#runOf(index)]!
  }

  /** Counts the units up to the end of the run that holds this one. */
  endOfRun(index: number): number {
    return this.#end(this.#runOf(index))
  }

  /** Counts the units < t. */
  countBefore(t: number): number {
    return this.#end(this.#firstFrom(t) - 1)
  }

  insert(at: number, count: number): void {
    const run = this.#firstFrom(at)
    if (this.#at[run] !== at) {
      this.#at.splice(run, 0, at)
      this.#ends.splice(run, 0, this.#base + this.#end(run - 1))
    }
    for (let later = run; later < this.#ends.length; later += 1) this.#ends[later]! += count
  }

  /** Takes out at most so many of this instant; answers how many there were. */
  remove(at: number, count: number): number {
    const run = this.#firstFrom(at)
    if (this.#at[run] !== at) return 0
    const held = this.#end(run) - this.#end(run - 1)
    const removed = Math.min(held, count)
    for (let later = run; later < this.#ends.length; later += 1) this.#ends[later]! -= removed
    if (removed === held) {
      this.#at.splice(run, 1)
      this.#ends.splice(run, 1)
    }
    return removed
  }

  /** Takes out the first units. */
  dropFirst(count: number): void {
    if (count <= 0) return
    const whole = count >= this.length ? this.#at.length : this.#runOf(count)
    this.#base += Math.min(count, this.length)
    this.#at.splice(0, whole)
    this.#ends.splice(0, whole)
  }

  #end(run: number): number {
    return run < 0 ? 0 : this.#ends[run]! - this.#base
  }

  /** The run of a unit: the first that ends behind it. */
  #runOf(index: number): number {
    return firstAbove(this.#ends, this.#base + index)
  }

  /** The first run at t or behind it. */
  #firstFrom(t: number): number {
    const last = this.#at.length - 1
    if (last < 0 || this.#at[last]! < t) return last + 1
    return firstAbove(this.#at, t - 1)
  }
}

/** Finds the index of the first number > value in a sorted list of whole numbers. */
export function firstAbove(list: readonly number[], value: number): number {
  let low = 0
  let high = list.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (list[middle]! <= value) low = middle + 1
    else high = middle
  }
  return low
}

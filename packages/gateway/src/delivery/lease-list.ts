/**
 * Leases in the order in which they were added, each in one list at most. The links stand on the leases themselves: a
 * `Set` that each call enters and leaves twice made a lease twice as dear (357 ns in place of 169).
 */

/** The links of a lease: the list that it is in, and its neighbours there. */
export interface Linked<L extends Linked<L>> {
  list: LeaseList<L> | undefined
  previous: L | undefined
  next: L | undefined
}

export class LeaseList<L extends Linked<L>> {
  first: L | undefined
  #last: L | undefined

  add(lease: L): void {
    lease.list = this
    lease.previous = this.#last
    lease.next = undefined
    if (this.#last === undefined) this.first = lease
    else this.#last.next = lease
    this.#last = lease
  }

  /** Whether it was in here. */
  delete(lease: L): boolean {
    if (lease.list !== this) return false
    const { previous, next } = lease
    if (previous === undefined) this.first = next
    else previous.next = next
    if (next === undefined) this.#last = previous
    else next.previous = previous
    lease.list = undefined
    lease.previous = undefined
    lease.next = undefined
    return true
  }
}

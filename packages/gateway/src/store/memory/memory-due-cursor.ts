/**
 * The due cursor over plain values: one heap by instant, and one per tenant for notifications that were passed over
 * while the tenant had no room.
 */
import { Heap } from '../../heap.ts'
import type { Notification } from '../../model.ts'
import { waits } from './memory-admissions.ts'

export class MemoryDueCursor {
  readonly #due = new Heap<Notification>()
  /** Heaps of passed-over notifications by tenant, the tenant that was served longest ago first. */
  readonly #lags = new Map<string, Heap<Notification>>()
  readonly #find: (row: Notification) => Notification | undefined
  claimedUntil = Number.NEGATIVE_INFINITY

  /** @param find returns the version that is on record now */
  constructor(find: (row: Notification) => Notification | undefined) {
    this.#find = find
  }

  push(notification: Notification): void {
    this.#due.push(notification.dueAt, notification)
  }

  /** @param isPassed tells which notifications stay where they are */
  take(
    until: number,
    limit: number,
    without: ReadonlySet<string>,
    isPassed: (row: Notification) => boolean,
  ): readonly Notification[] {
    const taken = new Set<Notification>()
    const left: Notification[] = []
    const keep = (row: Notification): unknown => (isPassed(row) ? left.push(row) : taken.add(row))
    const behind = [...this.#lags.keys()].filter((tenant) => !without.has(tenant))
    for (const [turn, tenant] of behind.entries()) {
      const most = taken.size + Math.ceil((limit - taken.size) / (behind.length - turn))
      this.#catchUp(tenant, until, keep, () => taken.size >= most)
    }
    let last: Notification | undefined
    while (taken.size < limit && this.#due.leastKey !== undefined && this.#due.leastKey <= until) {
      const found = this.#due.pop()!
      const now = this.#current(found)
      if (now === undefined) continue
      last = now
      if (without.has(now.tenant) || this.#isBehind(now.tenant, until)) this.#passOver(now)
      else keep(now)
    }
    const isAll = this.#due.leastKey === undefined || this.#due.leastKey > until
    if (isAll && taken.size < limit) this.claimedUntil = Math.max(this.claimedUntil, until)
    else if (last !== undefined) this.claimedUntil = Math.max(this.claimedUntil, last.dueAt - 1)
    for (const each of left) this.push(each)
    return [...taken]
  }

  /** The earliest instant at which an unclaimed notification may be due. */
  earliest(): number | undefined {
    const heaps = [this.#due, ...this.#lags.values()]
    const instants = heaps.map((heap) => this.#earliestIn(heap)).filter((at) => at !== undefined)
    return instants.length === 0 ? undefined : Math.min(...instants)
  }

  #earliestIn(heap: Heap<Notification>): number | undefined {
    while (heap.least !== undefined && this.#current(heap.least) === undefined) heap.pop()
    return heap.leastKey
  }

  /** Tests if something of the tenant that is due by then was passed over: it comes first. */
  #isBehind(tenant: string, until: number): boolean {
    const at = this.#lags.get(tenant)?.leastKey
    return at !== undefined && at <= until
  }

  #passOver(row: Notification): void {
    let lag = this.#lags.get(row.tenant)
    if (lag === undefined) {
      lag = new Heap()
      this.#lags.set(row.tenant, lag)
    }
    lag.push(row.dueAt, row)
  }

  /** Takes what was passed over and is due: another process may have passed it over at a later instant. */
  #catchUp(tenant: string, until: number, keep: (row: Notification) => void, isEnough: () => boolean): void {
    const lag = this.#lags.get(tenant)!
    while (!isEnough() && lag.leastKey !== undefined && lag.leastKey <= until) {
      const now = this.#current(lag.pop()!)
      if (now !== undefined) keep(now)
    }
    this.#lags.delete(tenant)
    if (lag.size > 0) this.#lags.set(tenant, lag)
  }

  /**
   * Finds the current version at the same place: a replaced version with another instant stands elsewhere, or
   * nowhere.
   */
  #current(row: Notification): Notification | undefined {
    const now = this.#find(row)
    return now !== undefined && waits.has(now.status) && now.dueAt === row.dueAt ? now : undefined
  }
}

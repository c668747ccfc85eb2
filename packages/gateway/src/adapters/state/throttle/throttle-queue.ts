/**
 * The throttle queue of one tenant and its modules: pure, without a clock. A new entry gets the earliest time that the
 * rolling windows of the tenant and of its module admit beside all earlier entries, and never a time before the last one
 * of its own module: first in, first out. An entry that passes now is counted; one that has to wait joins the queue of
 * its module, with that time as its place.
 *
 * A module's queue is two lists: the waiting entries in order of arrival, and the places in order of time. The k-th entry
 * has the k-th place. When an entry leaves, the entries behind it move up one place each and the last place is free;
 * `moveUp` then tries to move later places forward. No entry is ever moved to a later place.
 *
 * Cost: a waiting entry takes a number in three lists and its id; no window is searched again for it. The search for a
 * new place starts at the last place of its module and at the first time that is free for the tenant, which is
 * remembered: it visits about as many times as the widest limit counts, however long the queue is.
 */
import type { ThrottlePlace, WindowUse } from '../../../ports/tenants.ts'
import { nextPromotionAt, takePromoted } from './promotions.ts'
import { countUntil, forget, insert, remove, removeAll } from './sorted.ts'
import type { Counted, ModuleQueue, RestoredEntry, ThrottleLimits } from './throttle-limits.ts'
import { freeUnder, useOf } from './windows.ts'

export type { Counted, RestoredEntry, ThrottleLimits }

const never = Number.POSITIVE_INFINITY
/**
 * Entries that are placed again when a place that has come is free: some 3 ms of a Redis. Among more, one place is a
 * moment.
 */
const closedUpMax = 100
const noModule: ModuleQueue = { log: [], ids: [], places: [], dues: [] }

export class ThrottleQueue {
  readonly #rules: ThrottleLimits
  readonly #keptMs: number
  /** Times of passed and waiting entries of all modules, sorted. */
  readonly #log: number[] = []
  readonly #modules = new Map<string, ModuleQueue>()
  /** Modules with a queue that is not empty. */
  readonly #waiting = new Map<string, ModuleQueue>()
  /** No time from `since` up to `until` is free for the tenant. */
  #full = { since: never, until: -never }
  #newest = -never
  /** The least place that had come and was left since `closeUp`; `never` where none was. */
  #left = never
  #size = 0
  #modulesMax = 1_000

  constructor(rules: ThrottleLimits) {
    this.#rules = rules
    const windows = [...rules.tenant, ...rules.module].map((window) => window.windowMs)
    this.#keptMs = Math.max(0, ...windows) + rules.marginMs
  }

  /** The number of waiting entries. */
  get size(): number {
    return this.#size
  }

  /** True where nothing waits and nothing counts any more, so that the queue can be dropped. */
  isIdle(now: number): boolean {
    return this.#size === 0 && this.#newest + this.#keptMs <= now
  }

  /** Counts an entry without asking the limits: a critical one, or one that passed before a restart. */
  count(module: string, at: number): void {
    this.#put(this.#module(module), at)
  }

  /** Uncounts an entry that passed at that time and was not accepted. */
  uncount(module: string, at: number): void {
    const queue = this.#modules.get(module)
    if (queue !== undefined && this.#take(queue, at)) this.#left = Math.min(this.#left, at)
  }

  /** Counts a new entry that passes now, or puts it into the queue. */
  join(module: string, id: string, now: number, expiresAt = never): ThrottlePlace {
    this.#forget(now)
    const queue = this.#module(module)
    forget(queue.log, now - this.#keptMs)
    const place = this.#placeOf(queue, now)
    this.#put(queue, place.at)
    if (place.waits) this.#stand(module, queue, { id, at: place.at, dueAt: Math.min(place.at, expiresAt) })
    return place
  }

  /** Returns the place that `join` would give. */
  peek(module: string, now: number): ThrottlePlace {
    return this.#placeOf(this.#modules.get(module) ?? noModule, now)
  }

  /** Returns the places of a module's entries, in the order of these. */
  placesOf(module: string): readonly number[] {
    return this.#modules.get(module)?.places ?? []
  }

  /** Returns the current place of an entry; undefined where it is not in the queue. */
  placeOf(module: string, id: string): number | undefined {
    const queue = this.#waiting.get(module)
    const index = queue?.ids.indexOf(id) ?? -1
    return index < 0 ? undefined : queue!.places[index]
  }

  /** Removes an entry whose place has come, and returns that time. Undefined where it is not in the queue. */
  turn(
    module: string,
    id: string,
    now: number,
  ): { readonly passed: boolean; readonly at: number } | undefined {
    const queue = this.#waiting.get(module)
    const index = queue?.ids.indexOf(id) ?? -1
    if (queue === undefined || index < 0) return undefined
    const at = queue.places[index]!
    if (at > now) {
      queue.dues[index] = at
      return { passed: false, at }
    }
    queue.places.splice(index, 1)
    this.#leave(module, queue, index)
    return { passed: true, at }
  }

  /** Puts an entry back that has had its turn and was not accepted: it stays counted, and stands where its place stands. */
  putBack(module: string, id: string, at: number): void {
    const queue = this.#module(module)
    if (queue.ids.includes(id)) return
    const index = countUntil(queue.places, at)
    queue.ids.splice(index, 0, id)
    queue.dues.splice(index, 0, at)
    insert(queue.places, at)
    this.#waiting.set(module, queue)
    this.#size += 1
  }

  /**
   * Removes an entry before its turn: the entries behind it move up. A place that has come already goes with its entry,
   * since whoever got it would pass now and count then: all `closeUp`. With `isCounted` its place stays counted.
   */
  leave(module: string, id: string, now: number, isCounted = false): boolean {
    const queue = this.#waiting.get(module)
    const index = queue?.ids.lastIndexOf(id) ?? -1
    if (queue === undefined || index < 0) return false
    const hasCome = queue.places[index]! <= now
    const [freed] = queue.places.splice(hasCome || isCounted ? index : -1, 1)
    if (isCounted) {
      this.#leave(module, queue, index)
      return true
    }
    this.#take(queue, freed!)
    this.#leave(module, queue, index)
    if (hasCome) this.#left = Math.min(this.#left, freed!)
    else this.moveUp(now, freed!)
    return true
  }

  /**
   * Restores the entries that were in the queue before a restart, after passed ones are counted. In order of arrival
   * they get their stored places, unless critical entries came in between or others moved up. If that would make an entry
   * later than its stored place, entries go in order of stored places, as if no critical entry had come.
   */
  restore(restored: readonly RestoredEntry[], urgent: readonly Counted[], now: number): void {
    for (const { id, module, dueAt } of restored) {
      const queue = this.#module(module)
      queue.ids.push(id)
      queue.dues.push(dueAt)
      this.#waiting.set(module, queue)
    }
    this.#size = restored.length
    const countUrgent = (): void => {
      for (const { module, at } of urgent) this.count(module, at)
    }
    const byPromise = restored.toSorted((a, b) => a.at - b.at)
    countUrgent()
    const lateMs = this.#placeAll(restored, now)
    if (lateMs === 0) return
    this.#clear(urgent)
    if (this.#placeAll(byPromise, now) < lateMs) {
      countUrgent()
      this.moveUp(now, now)
    } else {
      this.#clear([])
      countUrgent()
      this.#placeAll(restored, now)
    }
  }

  /** Returns the earliest place of an entry whose due time on record is later. */
  nextPromotionAt(now: number): number | undefined {
    return nextPromotionAt(this.#waiting.values(), now)
  }

  /** Returns the entries whose place has come before their due time on record, each once. */
  takePromoted(now: number): readonly string[] {
    return takePromoted(this.#waiting.values(), now)
  }

  use(module: string, now: number): readonly WindowUse[] {
    const { tenant, module: own, marginMs } = this.#rules
    const queue = this.#modules.get(module) ?? noModule
    const ownFrom = Math.max(now, queue.places.at(-1) ?? now)
    return [
      ...useOf('tenant', { windows: tenant, marginMs, log: this.#log, now, from: this.#freeForTenant(now) }),
      ...useOf('module', { windows: own, marginMs, log: queue.log, now, from: ownFrom }),
    ]
  }

  /**
   * Moves later places forward, now that `freed` is free. Among the modules that gain, the first entry by arrival wins;
   * the place that its module gives up is free in its turn.
   */
  moveUp(now: number, freed: number): void {
    let from = freed
    for (;;) {
      // Only windows that contain the freed time can have opened.
      const opened = Math.max(now, from - this.#keptMs)
      let gaining: { readonly queue: ModuleQueue; readonly at: number; readonly first: string } | undefined
      for (const queue of this.#waiting.values()) {
        if (queue.places.at(-1)! <= opened) continue
        const at = this.#withoutLast(queue, opened)
        if (at >= queue.places.at(-1)!) continue
        const first = queue.ids[countUntil(queue.places, at)]!
        if (gaining === undefined || first < gaining.first) gaining = { queue, at, first }
      }
      if (gaining === undefined) return
      const { queue, at } = gaining
      const last = queue.places.pop()!
      this.#take(queue, last)
      insert(queue.places, at)
      this.#put(queue, at)
      from = Math.min(from, last)
    }
  }

  /**
   * Closes the gaps of places that had come and are free since the last call; to be called once after all entries that
   * leave together. Such a gap is shorter than a window: no single place fits into it, and all together move by it.
   */
  closeUp(now: number): void {
    if (this.#left === never) return
    const left = this.#left
    this.#left = never
    if (this.#size > 0 && this.#size <= closedUpMax) this.#placeAgain(now)
    this.moveUp(now, left)
  }

  /** Places all entries again whose places are still to come, in the order of these. */
  #placeAgain(now: number): void {
    const all = [...this.#waiting.values()].map((queue) => {
      const { ids, places } = queue
      return { queue, ids, before: [...places], come: countUntil(places, now) }
    })
    const takeBack = (): void => {
      for (const { queue, come } of all) for (const at of queue.places.splice(come)) this.#take(queue, at)
    }
    const order = all.flatMap(({ queue, ids, before, come }) =>
      before.slice(come).map((at, index) => ({ queue, at, id: ids[come + index]! })),
    )
    takeBack()
    for (const { queue } of order.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1)))
      this.#place(queue, this.#placeOf(queue, now).at)
    if (all.every(({ queue, before }) => queue.places.every((at, index) => at <= before[index]!))) return
    takeBack()
    for (const { queue, at } of order) this.#place(queue, at)
  }

  #place(queue: ModuleQueue, at: number): void {
    this.#put(queue, at)
    queue.places.push(at)
  }

  /** Returns the earliest time for a module's last entry if its current place were free. */
  #withoutLast(queue: ModuleQueue, from: number): number {
    const last = queue.places.at(-1)!
    const { since, until } = this.#full
    this.#take(queue, last)
    const at = this.#earliest(queue, from)
    this.#put(queue, last)
    this.#full = { since, until }
    return at
  }

  #placeOf(queue: ModuleQueue, now: number): ThrottlePlace {
    const last = queue.places.at(-1)
    const from = Math.max(now, last ?? now)
    const at = this.#earliest(queue, from)
    const waits = at > now || last !== undefined
    const behind =
      waits && (this.#freeForTenant(now) >= at || this.#freeForModule(queue, from) < at) ? 'tenant' : 'module'
    return { at, waits, behind }
  }

  #earliest(queue: ModuleQueue, from: number): number {
    let t = from
    for (;;) {
      const tried = t
      t = this.#freeForTenant(this.#freeForModule(queue, t))
      if (t === tried || t === never) return t
    }
  }

  #freeForModule({ log }: ModuleQueue, from: number): number {
    return freeUnder(this.#rules.module, this.#rules.marginMs, log, from)
  }

  #freeForTenant(from: number): number {
    const { tenant, marginMs } = this.#rules
    const full = this.#full
    const known = from >= full.since && from <= full.until
    const t = freeUnder(tenant, marginMs, this.#log, known ? full.until : from)
    if (known) full.until = t
    else if (from > full.until || from < full.since) this.#remember(from, t)
    return t
  }

  /** Remembers the earliest full span, which is the one that new entries meet. */
  #remember(from: number, until: number): void {
    if (this.#full.until === -never || from < this.#full.since) this.#full = { since: from, until }
  }

  /** Gives every waiting entry a place; returns the total delay against the stored places, ms. */
  #placeAll(order: readonly RestoredEntry[], now: number): number {
    const promises = new Map<ModuleQueue, number[]>()
    for (const { module, at: promised } of order) {
      const queue = this.#module(module)
      const { at } = this.#placeOf(queue, now)
      this.#place(queue, at)
      const own = promises.get(queue) ?? []
      own.push(promised)
      promises.set(queue, own)
    }
    let lateMs = 0
    for (const [{ places }, promised] of promises)
      for (const [index, at] of places.entries()) lateMs += Math.max(0, at - promised[index]!)
    return lateMs
  }

  /** Removes all places, and the counted entries given. */
  #clear(counted: readonly Counted[]): void {
    // Taken one after the other, each would move all behind it, with the square of their number: 0.85 s of CPU for a start
    // with 100,000 in place of 0.16 (npm run bench -- throttle-fill --base 4372c297^ --full 100000).
    const freed = [...this.#waiting.values()].flatMap((queue) => {
      removeAll(queue.log, queue.places)
      return queue.places.splice(0)
    })
    freed.sort((a, b) => a - b)
    removeAll(this.#log, freed)
    this.#full = { since: never, until: -never }
    for (const { module, at } of counted) this.#take(this.#module(module), at)
  }

  #module(name: string): ModuleQueue {
    let queue = this.#modules.get(name)
    if (queue === undefined) {
      queue = { log: [], ids: [], places: [], dues: [] }
      this.#modules.set(name, queue)
    }
    return queue
  }

  #put(queue: ModuleQueue, at: number): void {
    insert(queue.log, at)
    if (this.#rules.tenant.length > 0) insert(this.#log, at)
    this.#newest = Math.max(this.#newest, at)
  }

  /** Removes a time from the logs; returns false where it was not there. */
  #take(queue: ModuleQueue, at: number): boolean {
    if (!remove(queue.log, at)) return false
    remove(this.#log, at)
    // Only times less than a window from it may be free now.
    this.#full.until = Math.min(this.#full.until, at - this.#keptMs)
    if (this.#full.until < this.#full.since) this.#full = { since: never, until: -never }
    return true
  }

  #stand(module: string, queue: ModuleQueue, { id, at, dueAt }: Omit<RestoredEntry, 'module'>): void {
    queue.ids.push(id)
    insert(queue.places, at)
    queue.dues.push(dueAt)
    this.#waiting.set(module, queue)
    this.#size += 1
  }

  #leave(module: string, queue: ModuleQueue, index: number): void {
    queue.ids.splice(index, 1)
    queue.dues.splice(index, 1)
    this.#size -= 1
    if (queue.ids.length === 0) this.#waiting.delete(module)
  }

  #forget(now: number): void {
    // A full span in the past concerns no new entry.
    if (Math.max(this.#full.since, this.#full.until) < now) this.#full = { since: never, until: -never }
    forget(this.#log, now - this.#keptMs)
    if (this.#modules.size <= this.#modulesMax) return
    for (const [name, queue] of this.#modules) {
      forget(queue.log, now - this.#keptMs)
      if (queue.log.length === 0) this.#modules.delete(name)
    }
    this.#modulesMax = Math.max(1_000, 2 * this.#modules.size)
  }
}

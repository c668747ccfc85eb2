/**
 * The line before the limits of one tenant and its modules: pure, without a clock. Whoever comes is given the earliest
 * instant that the rolling windows of the tenant and of its module admit beside everybody who came before, and never
 * one before its own module's last: first in, first out. What passes now is counted; what must wait stands in the line
 * of its module with that instant as its place.
 *
 * A module's line is two lists: who waits, in the order of arrival, and the places, in the order of time. The k-th who
 * waits has the k-th place. So when somebody leaves, those behind move up a place each and the last place is free;
 * `settle` then looks whether a place further back can be had earlier. Nobody is ever moved to a later place.
 *
 * Sizes: a waiting one costs its place in three lists of numbers and its id; no window is looked through again for it.
 * A new place is found from the last one of its module, and from the first instant that is free for the tenant, which
 * is remembered: that looks at about as many instants as the widest limit counts, however long the line is.
 */
import type { Window } from '@sluice/limits'
import { countUntil, forget, insert, remove } from './sorted.ts'
import { freeUnder, useOf, type WindowUse } from './windows.ts'

export interface ThrottleLimits {
  /** All modules of the tenant together; none: unlimited. */
  readonly tenant: readonly Window[]
  /** Each module of it. */
  readonly module: readonly Window[]
  /** Every window is kept this much longer, ms. */
  readonly marginMs: number
}

/** What a newcomer gets. */
export interface Place {
  readonly at: number
  /** It stands in the line until then; else it has passed. */
  readonly waits: boolean
  /** Which of the two makes it wait. */
  readonly behind: 'tenant' | 'module'
}

/** Somebody who stood in the line before a restart, in the order of arrival. */
export interface RestoredEntry {
  readonly id: string
  readonly module: string
  /** The place that was promised. */
  readonly at: number
  /** When it comes up by itself: at its place, or at its end where that is earlier. */
  readonly dueAt: number
}

/** What has passed, or passes unasked. */
export interface Counted {
  readonly module: string
  readonly at: number
}

interface ModuleQueue {
  /** What has passed and what is to come, sorted. */
  readonly log: number[]
  readonly ids: string[]
  /** Sorted; as many as `ids`. */
  readonly places: number[]
  /** When each comes up by itself: what the record says. */
  readonly dues: number[]
}

const never = Number.POSITIVE_INFINITY
const noModule: ModuleQueue = { log: [], ids: [], places: [], dues: [] }

export class ThrottleQueue {
  readonly #rules: ThrottleLimits
  readonly #keptMs: number
  /** All modules: what has passed and what is to come. */
  readonly #log: number[] = []
  readonly #modules = new Map<string, ModuleQueue>()
  /** Those in whose line somebody stands. */
  readonly #waiting = new Map<string, ModuleQueue>()
  /** No instant from `since` up to `until` is free for the tenant. */
  #full = { since: never, until: -never }
  #newest = -never
  #size = 0
  #modulesMax = 1_000

  constructor(rules: ThrottleLimits) {
    this.#rules = rules
    const windows = [...rules.tenant, ...rules.module].map((window) => window.windowMs)
    this.#keptMs = Math.max(0, ...windows) + rules.marginMs
  }

  /** How many wait. */
  get size(): number {
    return this.#size
  }

  /** Whether forgetting all of it loses nothing. */
  isIdle(now: number): boolean {
    return this.#size === 0 && this.#newest + this.#keptMs <= now
  }

  /** Counts one without asking: what is critical, and what had passed before a restart. */
  count(module: string, at: number): void {
    this.#put(this.#module(module), at)
  }

  /** Nothing has come of what had passed at that instant. */
  uncount(module: string, at: number, now: number): void {
    const of = this.#modules.get(module)
    if (of !== undefined && this.#take(of, at)) this.moveUp(now, at)
  }

  /** Passes now, or stands in the line. */
  join(module: string, id: string, now: number, expiresAt = never): Place {
    this.#forget(now)
    const of = this.#module(module)
    forget(of.log, now - this.#keptMs)
    const place = this.#placeOf(of, now)
    this.#put(of, place.at)
    if (place.waits) this.#stand(module, of, { id, at: place.at, dueAt: Math.min(place.at, expiresAt) })
    return place
  }

  /** What `join` would say. */
  peek(module: string, now: number): Place {
    return this.#placeOf(this.#modules.get(module) ?? noModule, now)
  }

  /** Where one stands now; undefined where it does not stand in the line. */
  placeOf(module: string, id: string): number | undefined {
    const of = this.#waiting.get(module)
    const index = of?.ids.indexOf(id) ?? -1
    return index < 0 ? undefined : of!.places[index]
  }

  /** Takes one out whose place has come; answers that instant. Undefined where it does not stand in the line. */
  turn(
    module: string,
    id: string,
    now: number,
  ): { readonly passed: boolean; readonly at: number } | undefined {
    const of = this.#waiting.get(module)
    const index = of?.ids.indexOf(id) ?? -1
    if (of === undefined || index < 0) return undefined
    const at = of.places[index]!
    if (at > now) {
      of.dues[index] = at
      return { passed: false, at }
    }
    of.places.splice(index, 1)
    this.#leave(module, of, index)
    return { passed: true, at }
  }

  /** Somebody leaves the line before the turn came: those behind move up. */
  leave(module: string, id: string, now: number): boolean {
    const of = this.#waiting.get(module)
    const index = of?.ids.lastIndexOf(id) ?? -1
    if (of === undefined || index < 0) return false
    const freed = of.places.pop()!
    this.#take(of, freed)
    this.#leave(module, of, index)
    this.moveUp(now, freed)
    return true
  }

  /**
   * Places those who stood in the line before a restart; what had passed is counted before. In the order of arrival
   * they get what they had, unless what is critical came in between or others moved up: then somebody could come
   * later than was promised, and those who were promised the earliest go first, as if nothing critical had come.
   */
  restore(restored: readonly RestoredEntry[], urgent: readonly Counted[], now: number): void {
    for (const { id, module, dueAt } of restored) {
      const of = this.#module(module)
      of.ids.push(id)
      of.dues.push(dueAt)
      this.#waiting.set(module, of)
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

  /** The earliest place of somebody who comes up by itself only later. */
  nextEarly(): number | undefined {
    let next = never
    for (const { places, dues } of this.#waiting.values()) {
      if (places[0]! < dues[0]!) next = Math.min(next, places[0]!)
    }
    return next === never ? undefined : next
  }

  /** Whose place has come, and who would come up by itself only later. They are named once. */
  callEarly(now: number): readonly string[] {
    const called: string[] = []
    for (const { ids, places, dues } of this.#waiting.values()) {
      for (let index = 0; index < ids.length && places[index]! <= now; index += 1) {
        if (places[index]! >= dues[index]!) continue
        dues[index] = places[index]!
        called.push(ids[index]!)
      }
    }
    return called
  }

  use(module: string, now: number): readonly WindowUse[] {
    const { tenant, module: own, marginMs } = this.#rules
    const of = this.#modules.get(module) ?? noModule
    const ownFrom = Math.max(now, of.places.at(-1) ?? now)
    return [
      ...useOf('tenant', { windows: tenant, marginMs, log: this.#log, now, from: this.#freeForTenant(now) }),
      ...useOf('module', { windows: own, marginMs, log: of.log, now, from: ownFrom }),
    ]
  }

  /**
   * Gives the places further back to whoever can have them earlier, now that `freed` is free: among those who gain,
   * to the first that came. What a module gives up by that is free in its turn.
   */
  moveUp(now: number, freed: number): void {
    let from = freed
    for (;;) {
      // Only windows that the freed instant stood in can have opened.
      const opened = Math.max(now, from - this.#keptMs)
      let gaining: { readonly of: ModuleQueue; readonly at: number; readonly first: string } | undefined
      for (const of of this.#waiting.values()) {
        if (of.places.at(-1)! <= opened) continue
        const at = this.#withoutLast(of, opened)
        if (at >= of.places.at(-1)!) continue
        const first = of.ids[countUntil(of.places, at)]!
        if (gaining === undefined || first < gaining.first) gaining = { of, at, first }
      }
      if (gaining === undefined) return
      const { of, at } = gaining
      const last = of.places.pop()!
      this.#take(of, last)
      insert(of.places, at)
      this.#put(of, at)
      from = Math.min(from, last)
    }
  }

  /** Where the last of a module could stand were its place not its own. */
  #withoutLast(of: ModuleQueue, from: number): number {
    const last = of.places.at(-1)!
    const { since, until } = this.#full
    this.#take(of, last)
    const at = this.#earliest(of, from)
    this.#put(of, last)
    this.#full = { since, until }
    return at
  }

  #placeOf(of: ModuleQueue, now: number): Place {
    const last = of.places.at(-1)
    const from = Math.max(now, last ?? now)
    const at = this.#earliest(of, from)
    const waits = at > now || last !== undefined
    const behind =
      waits && (this.#freeForTenant(now) >= at || this.#freeForModule(of, from) < at) ? 'tenant' : 'module'
    return { at, waits, behind }
  }

  #earliest(of: ModuleQueue, from: number): number {
    let t = from
    for (;;) {
      const tried = t
      t = this.#freeForTenant(this.#freeForModule(of, t))
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

  /** The gap that newcomers meet is the one to remember: the earliest. */
  #remember(from: number, until: number): void {
    if (this.#full.until === -never || from < this.#full.since) this.#full = { since: from, until }
  }

  /** Gives everybody who waits a place; answers how much later they come than was promised, all together. */
  #placeAll(order: readonly RestoredEntry[], now: number): number {
    const promises = new Map<ModuleQueue, number[]>()
    for (const { module, at: promised } of order) {
      const of = this.#module(module)
      const { at } = this.#placeOf(of, now)
      this.#put(of, at)
      of.places.push(at)
      const own = promises.get(of) ?? []
      own.push(promised)
      promises.set(of, own)
    }
    let lateMs = 0
    for (const [{ places }, promised] of promises) {
      for (const [index, at] of places.entries()) lateMs += Math.max(0, at - promised[index]!)
    }
    return lateMs
  }

  /** Takes all places back, and what had been counted besides. */
  #clear(counted: readonly Counted[]): void {
    for (const of of this.#waiting.values()) for (const at of of.places.splice(0)) this.#take(of, at)
    for (const { module, at } of counted) this.#take(this.#module(module), at)
  }

  #module(name: string): ModuleQueue {
    let of = this.#modules.get(name)
    if (of === undefined) {
      of = { log: [], ids: [], places: [], dues: [] }
      this.#modules.set(name, of)
    }
    return of
  }

  #put(of: ModuleQueue, at: number): void {
    insert(of.log, at)
    if (this.#rules.tenant.length > 0) insert(this.#log, at)
    this.#newest = Math.max(this.#newest, at)
  }

  /** Answers whether it was there. */
  #take(of: ModuleQueue, at: number): boolean {
    if (!remove(of.log, at)) return false
    remove(this.#log, at)
    this.#full = { since: never, until: -never }
    return true
  }

  #stand(module: string, of: ModuleQueue, { id, at, dueAt }: Omit<RestoredEntry, 'module'>): void {
    of.ids.push(id)
    insert(of.places, at)
    of.dues.push(dueAt)
    this.#waiting.set(module, of)
    this.#size += 1
  }

  #leave(module: string, of: ModuleQueue, index: number): void {
    of.ids.splice(index, 1)
    of.dues.splice(index, 1)
    this.#size -= 1
    if (of.ids.length === 0) this.#waiting.delete(module)
  }

  #forget(now: number): void {
    const { since, until } = this.#full
    // What lies behind is no newcomer's any more.
    if (until < now && since < now) this.#full = { since: never, until: -never }
    forget(this.#log, now - this.#keptMs)
    if (this.#modules.size <= this.#modulesMax) return
    for (const [name, of] of this.#modules) {
      forget(of.log, now - this.#keptMs)
      if (of.log.length === 0) this.#modules.delete(name)
    }
    this.#modulesMax = Math.max(1_000, 2 * this.#modules.size)
  }
}

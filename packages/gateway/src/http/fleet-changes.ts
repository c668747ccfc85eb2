/**
 * Changes of state of every process of a fleet, for the readers of event streams. Each process says which tenants it has
 * readers of, and the others tell it their changes of these: without readers nothing is told. The changes of one
 * notification come in their order, whichever process made them.
 */
import { revisionOf } from '../model.ts'
import type { Peers } from '../ports/fleet.ts'
import type { Clock } from '../ports.ts'
import type { Happening, Ledger } from '../stages.ts'

/** A change of state, with what an event tells of its notification. */
export interface StateChange {
  readonly notification: Pick<
    Happening['notification'],
    'id' | 'tenant' | 'module' | 'to' | 'channel' | 'category' | 'priority' | 'template' | 'actor'
  >
  readonly events: Happening['events']
}

/** The changes that event streams show. A ledger is one, of one process. */
export interface ChangeFeed {
  /** Calls the listener with each change; the returned function ends it. */
  subscribe(listener: (change: StateChange) => void): () => void
  /** Names the tenants that have readers, undefined where one reads all; resolves when every process knows. */
  watchTenants?(tenants: readonly string[] | undefined): Promise<void>
  /** Calls back when changes of other processes may have been missed. */
  onLost?(listener: () => void): void
}

export interface FleetChangesOptions {
  readonly ledger: Pick<Ledger, 'subscribe'>
  readonly peers: Peers
  readonly clock: Pick<Clock, 'now' | 'at' | 'monotonic'>
}

/** A change on its way to another process: the number of events before it, and the change. */
type Told = readonly [before: number, change: StateChange]

interface Watcher {
  /** Undefined for all. */
  readonly tenants: ReadonlySet<string> | undefined
  /** The instant of `clock.monotonic` at which it lapses. */
  readonly until: number
}

/** Readers are made known again after this time, ms. */
const renewMs = 2_000
/** A process that did not renew them for so long has no readers any more, ms. */
const lapseMs = 3 * renewMs
/**
 * A change whose predecessor was not seen waits for it so long, ms: it may be on its way from another process. Also the
 * first that is seen of a notification, unless it is its acceptance.
 */
const holdMs = 100
/** Notifications whose last change is remembered: of older ones the next change waits. */
const seenMax = 20_000
/** Changes that wait for their predecessor at most: further ones come at once. */
const heldMax = 10_000

export function createFleetChanges({ ledger, peers, clock }: FleetChangesOptions): ChangeFeed {
  const listeners = new Set<(change: StateChange) => void>()
  const lostListeners = new Set<() => void>()
  const watchers = new Map<string, Watcher>()
  /** The number of events that were seen of a notification, in the order of their changes. */
  const seen = new Map<string, number>()
  /** Changes that wait, by notification. */
  const held = new Map<string, Told[]>()
  let watched: readonly string[] | undefined = []
  let stopRenewing: (() => void) | undefined

  function tellWatchers({ notification, events }: Happening): void {
    const { id, tenant, module, to, channel, category, priority, template, actor } = notification
    let told: Told | undefined
    for (const [member, { tenants, until }] of watchers) {
      if (until < clock.monotonic()) watchers.delete(member)
      else if (tenants === undefined || tenants.has(tenant)) {
        const about = { id, tenant, module, to: { id: to.id }, channel, category, priority, template, actor }
        told ??= [revisionOf(notification) - events.length, { notification: about as never, events }]
        peers.tell('change', told, member)
      }
    }
  }

  ledger.subscribe((happening) => {
    if (watchers.size > 0) tellWatchers(happening)
    if (listeners.size > 0) arrive([revisionOf(happening.notification) - happening.events.length, happening])
  })
  peers.listen('change', (told) => {
    if (listeners.size > 0) arrive(told as Told)
  })
  function noteWatcher(member: string, tenants: unknown): void {
    if (Array.isArray(tenants) && tenants.length === 0) watchers.delete(member)
    else {
      const set = Array.isArray(tenants) ? new Set(tenants as readonly string[]) : undefined
      watchers.set(member, { tenants: set, until: clock.monotonic() + lapseMs })
    }
  }

  peers.answer('watch', (tenants, member) => {
    noteWatcher(member, tenants)
    return true
  })
  peers.answer('watched', () => watched ?? null)
  /** Asks who reads: until the others make their readers known again, they would miss the changes of a process that starts. */
  async function learn(): Promise<void> {
    const lapsesLater = clock.monotonic() + lapseMs
    const { answers } = await peers.ask('watched', null)
    for (const [member, tenants] of answers) {
      // The answers come together, with the slowest one: what a process has made known meanwhile is newer than its own.
      const isNewer = (watchers.get(member)?.until ?? Number.NEGATIVE_INFINITY) >= lapsesLater
      if (tenants !== undefined && !isNewer) noteWatcher(member, tenants)
    }
  }
  void learn()

  function tellLost(): void {
    for (const listener of lostListeners) listener()
  }
  peers.onLost(() => {
    // The others have missed the changes of this process.
    peers.tell('missed', null)
    void learn()
    tellLost()
  })
  peers.listen('missed', tellLost)

  /** Shows a change behind its predecessor. */
  function arrive(told: Told): void {
    const [before, { notification }] = told
    const { id } = notification
    const known = seen.get(id) ?? (before === 0 ? 0 : undefined)
    // Later changes were shown already: the list has this one.
    if (known !== undefined && known > before) return
    if (known === before || held.size >= heldMax) {
      show(told)
      follow(id)
    } else hold(id, told)
  }

  function show([before, change]: Told): void {
    const { id } = change.notification
    seen.delete(id)
    seen.set(id, before + change.events.length)
    if (seen.size > seenMax) seen.delete(seen.keys().next().value!)
    for (const listener of listeners) listener(change)
  }

  /** Shows the changes that waited for the one that was shown. */
  function follow(id: string): void {
    const waiting = held.get(id)
    if (waiting === undefined) return
    const next = waiting.findIndex(([before]) => before === seen.get(id))
    if (next < 0) return
    const [told] = waiting.splice(next, 1)
    if (waiting.length === 0) held.delete(id)
    show(told!)
    follow(id)
  }

  function hold(id: string, told: Told): void {
    const waiting = held.get(id)
    if (waiting !== undefined) {
      waiting.push(told)
      return
    }
    held.set(id, [told])
    clock.at(clock.now() + holdMs, () => {
      const left = held.get(id) ?? []
      held.delete(id)
      for (const each of left.toSorted(([a], [b]) => a - b)) if (each[0] >= (seen.get(id) ?? 0)) show(each)
    })
  }

  function renew(): void {
    stopRenewing = clock.at(clock.now() + renewMs, () => {
      peers.ask('watch', watched ?? null)
      renew()
    })
  }

  return {
    subscribe(listener) {
      listeners.add(listener)
      return () => {
        listeners.delete(listener)
        if (listeners.size > 0) return
        seen.clear()
        held.clear()
      }
    },
    async watchTenants(tenants) {
      watched = tenants
      stopRenewing?.()
      stopRenewing = undefined
      if (tenants === undefined || tenants.length > 0) renew()
      await peers.ask('watch', tenants ?? null)
    },
    onLost: (listener) => void lostListeners.add(listener),
  }
}

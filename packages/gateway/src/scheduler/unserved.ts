/**
 * Makes dead letters of notifications whose channel no process serves any more, whatever their state. They release what
 * they hold, count in no bound, and are redriven when a pool serves the channel again (automatic-redrive.ts). The record
 * is scanned in the background and in slices: at start, and once the last other process that served a channel has gone.
 * Later ones are caught when they reach the queue. A channel that another process serves is left to it: this one claims
 * nothing of it, and gives back what it holds of it all the same, after a takeover or the closing of a digest.
 */
import { unservedDetail } from '../bounds.ts'
import { conflicted, retryOnConflict } from '../conflict.ts'
import { concernsAll } from '../errors.ts'
import { advance, type Channel, channels, isFinal, type Notification } from '../model.ts'
import type { Members } from '../ports/fleet.ts'
import type { Clock, Store } from '../ports.ts'
import { createSleeper } from '../sleeper.ts'
import type { Ledger } from '../stages.ts'

export interface UnservedOptions {
  readonly store: Pick<Store, 'notification' | 'scan' | 'releaseDue' | 'isVersioned'>
  readonly ledger: Pick<Ledger, 'commit' | 'live' | 'hold' | 'release'>
  /** Channels for which there is a pool. */
  readonly served: ReadonlySet<Channel>
  readonly members: Pick<Members, 'othersServe'>
  readonly clock: Clock
  /** Releases what the notification holds in limits and throttle queues. */
  readonly releaseHolds: (held: Notification, ended: Notification['status']) => Promise<void>
  /** Holds up newcomers from before the commit until the holds are released. */
  readonly pauseNewcomers: (held: Notification) => Promise<() => Promise<void>>
  /** Called once per channel when the scan has ended, and for notifications caught later. */
  readonly onDeadLetters: (channel: Channel, count: number) => void
  readonly onError: (what: string, error: unknown) => void
}

/** Recovers a notification that was taken out of memory and could not be written: the scheduler does. */
type Recover = (notification: Notification) => Promise<void>

export interface Unserved {
  serves(channel: Channel): boolean
  /** Channels without a pool here that are left to other processes. */
  left(): readonly Channel[]
  /** Gives notifications that have reached the queue back for another process, or makes dead letters of them. */
  giveUp(notifications: readonly Notification[], recover: Recover): Promise<void>
  start(recover: Recover): void
  stop(): Promise<void>
}

/** Rows scanned at once. */
const scanMax = 500
/** Commits in flight together; the store writes them as one. */
const commitsAtOnce = 100
/** Pause after each group, in which other work has the store, and retry delay when the store fails, ms. */
const restMs = 5
const retryMs = 1_000
/** A channel is left to the others for so long after one of them served it, ms: it may be about to start again. */
const leftMs = 30_000
/** Interval at which channels are looked for that no other process serves any more, ms. */
const lookMs = 5_000

export function createUnserved(options: UnservedOptions): Unserved {
  const { store, ledger, served, members, clock, releaseHolds, pauseNewcomers, onDeadLetters, onError } =
    options
  const unserved = channels.filter((channel) => !served.has(channel))
  /** When another process was last known to serve a channel, epoch ms. */
  const servedAt = new Map<Channel, number>()
  let stopped = false
  let working: Promise<void> | undefined
  const { sleep, wakeAll } = createSleeper(clock)

  function isLeft(channel: Channel): boolean {
    const now = clock.now()
    if (members.othersServe(channel)) servedAt.set(channel, now)
    return now - (servedAt.get(channel) ?? Number.NEGATIVE_INFINITY) < leftMs
  }

  const left = (): readonly Channel[] => unserved.filter(isLeft)

  /** Gives held notifications back to the store, where a process claims them that serves their channel. */
  async function giveBack(held: readonly Notification[], recover: Recover): Promise<void> {
    for (const each of held) ledger.release(each)
    try {
      await store.releaseDue(held)
    } catch (error) {
      for (const each of held) recoverSoon(each, recover)
      throw error
    }
  }

  /** Recovers the notification after a delay: at once, the store would be called as often as it can refuse. */
  function recoverSoon(notification: Notification, recover: Recover): void {
    clock.at(clock.now() + retryMs, () => {
      if (!stopped) void recover(notification)
    })
  }

  /** Commits the move to a dead letter; resolves to false where the record has changed. */
  async function writeDeadLetter(recorded: Notification, recover: Recover): Promise<boolean> {
    const live = ledger.live(recorded.id)
    const before = live?.notification ?? recorded
    const now = clock.now()
    const leaves = before.status === 'digesting' ? [{ at: now, status: 'scheduled' } as const] : []
    const dead = { at: now, status: 'dead', reason: 'pool_blocked', detail: unservedDetail } as const
    const dueAt = before.expiresAt ?? Number.MAX_SAFE_INTEGER
    const move = advance(before, [...(live?.events ?? []), ...leaves, dead], { dueAt })
    ledger.release(before)
    let result: Awaited<ReturnType<typeof ledger.commit>>
    try {
      result = await ledger.commit({ moves: [move] })
    } catch (error) {
      recoverSoon(before, recover)
      throw error
    }
    // As of an expired one, its reservation and its place are released, and its fingerprint stays.
    if (result.applied) await releaseHolds(before, 'expired')
    return result.applied
  }

  /** Makes a dead letter of one notification; resolves to true if the move was committed. */
  async function makeDeadLetter(found: Notification, recover: Recover): Promise<boolean> {
    let recorded: Notification | undefined = found
    const result = await retryOnConflict(async () => {
      if (recorded === undefined) return conflicted
      if (isFinal(recorded.status) || recorded.status === 'dead') return false
      const resume = await pauseNewcomers(recorded)
      try {
        if (await writeDeadLetter(recorded, recover)) return true
      } finally {
        await resume()
      }
      recorded = await store.notification(found.tenant, found.id)
      return conflicted
    })
    if (result !== conflicted) return result
    // A record that keeps changing is being handled elsewhere.
    await recover(found)
    return false
  }

  async function makeDeadLetters(
    notifications: readonly Notification[],
    counts: Map<Channel, number>,
    recover: Recover,
  ): Promise<void> {
    for (let from = 0; from < notifications.length; from += commitsAtOnce) {
      const some = notifications.slice(from, from + commitsAtOnce)
      const ends = await Promise.allSettled(some.map((each) => makeDeadLetter(each, recover)))
      for (const [index, end] of ends.entries()) {
        const { channel } = some[index]!
        if (end.status === 'rejected') {
          if (concernsAll(end.reason)) throw end.reason
          // This notification is recovered alone; the others of the group are unaffected.
          onError('make a dead letter of what no pool serves', end.reason)
        } else if (end.value) counts.set(channel, (counts.get(channel) ?? 0) + 1)
      }
      await sleep(restMs)
      if (stopped) return
    }
  }

  function report(counts: ReadonlyMap<Channel, number>): void {
    for (const [channel, count] of counts) onDeadLetters(channel, count)
  }

  /** Scans for each channel once no other process serves it, and again where one has served it since. */
  async function scanInTurn(recover: Recover): Promise<void> {
    const waiting = new Set(unserved)
    while (!stopped) {
      for (const channel of left()) waiting.add(channel)
      const alone = [...waiting].filter((channel) => !isLeft(channel))
      if (alone.length > 0) await scanUnserved(alone, recover)
      for (const channel of alone) waiting.delete(channel)
      if (!store.isVersioned) return
      await sleep(lookMs)
    }
  }

  async function scanUnserved(alone: readonly Channel[], recover: Recover): Promise<void> {
    const counts = new Map<Channel, number>()
    for (let cursor: string | null | undefined; cursor !== null && !stopped; ) {
      try {
        const page = await store.scan({
          statuses: ['scheduled', 'digesting', 'queued', 'sending'],
          channels: alone,
          limit: scanMax,
          ...(cursor === undefined ? {} : { cursor }),
        })
        const found = page.items.filter(({ channel }) => !isLeft(channel))
        await makeDeadLetters(found, counts, recover)
        cursor = page.nextCursor
      } catch (error) {
        onError('make dead letters of what no pool serves', error)
        await sleep(retryMs)
      }
    }
    report(counts)
  }

  return {
    serves: (channel) => served.has(channel),
    left,
    async giveUp(notifications, recover) {
      const counts = new Map<Channel, number>()
      try {
        const others = notifications.filter(({ channel }) => isLeft(channel))
        if (others.length > 0) await giveBack(others, recover)
        const given = new Set(others)
        await makeDeadLetters(
          notifications.filter((each) => !given.has(each)),
          counts,
          recover,
        )
      } catch (error) {
        for (const notification of notifications) {
          if (ledger.live(notification.id)?.notification !== notification) continue
          ledger.release(notification)
          recoverSoon(notification, recover)
        }
        throw error
      } finally {
        report(counts)
      }
    },
    start(recover) {
      if (unserved.length > 0) working = scanInTurn(recover)
    },
    async stop() {
      stopped = true
      wakeAll()
      await working
    },
  }
}

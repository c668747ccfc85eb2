/**
 * Releases notifications when they are due. The store holds everything that waits, in order of due time. Memory holds
 * only what is due within the next seconds (due-poller.ts): a million waiting notifications cost disk and not memory, and
 * a release reads nothing from disk. Due notifications go to the queue and expire in time if they stay there
 * (expiry-timer.ts); digests are closed by digest-timer.ts.
 */

import { awaitsLimits } from '../awaits-limits.ts'
import { Heap } from '../heap.ts'
import { advance, type Digest, type Notification } from '../model.ts'
import type { Clock, Queue, Store } from '../ports.ts'
import type { Gate, Ledger, Scheduler } from '../stages.ts'
import { BackgroundTasks } from './background-tasks.ts'
import { type DigestChoice, DigestTimer } from './digest-timer.ts'
import { DuePoller, type DuePollerOptions, retryMs } from './due-poller.ts'
import { ExpiryTimer } from './expiry-timer.ts'
import { isNews } from './is-news.ts'
import type { Unserved } from './unserved.ts'

export interface SchedulerOptions
  extends Pick<DuePollerOptions, 'mayClaim' | 'missingTemplates'>,
    DigestChoice {
  readonly store: Store
  readonly ledger: Ledger
  readonly queue: Queue
  readonly clock: Clock
  /** Releases the reservations and places that an expired notification holds. */
  readonly releaseHolds: (held: Notification, ended: Notification['status']) => Promise<void>
  /** Holds up newcomers from before the commit of an expiry until the holds are released. */
  readonly pauseNewcomers: (held: Notification) => Promise<() => Promise<void>>
  /** Counts notifications in the limits that a dead process may have sent. */
  readonly countSuspects: (suspected: readonly Notification[]) => Promise<void>
  /** Takes notifications whose channel has no pool here: for another process, or as dead letters. */
  readonly unserved: Pick<Unserved, 'serves' | 'left' | 'giveUp'>
  readonly onError?: (what: string, error: unknown) => void
  /** Notifications due within this time are kept in memory. @defaultValue 2_000 ms */
  readonly lookaheadMs?: number
  /** Notifications kept in memory, at most half of one tenant; the others stay in the store. @defaultValue 20_000 */
  readonly heldMax?: number
}

/** Decides due, undecided notifications and closes digests. */
type DueGate = Pick<Gate, 'resume' | 'closeDigest'>

export interface RunningScheduler extends Scheduler {
  /** Begins to release notifications and to close digests. The gate is created after the scheduler that it calls. */
  start(gate: DueGate): Promise<void>
  stop(): Promise<void>
  /** Keeps notifications that this process took from a broker, and releases them when they are due. */
  keep(taken: readonly Notification[]): void
  /** Notifications were given back to the store that are due: reads them soon. */
  noteFreed(): void
  /** Another process has died: takes over what it held. */
  takeOver(): void
  /** Counts the notifications kept in memory until they are due. */
  size(): number
}

const heldMaxDefault = 20_000
/** When memory is full, tenants that hold fewer than this are still read, up to twice the bound in all. */
const crowdedMax = 64
const lookaheadMsDefault = 2_000

export function createScheduler(options: SchedulerOptions): RunningScheduler {
  const { store, ledger, queue, clock, members, unserved, heldMax = heldMaxDefault } = options
  /** Notifications that are due soon, ordered by due time. */
  const held = new Heap<Notification>()
  const expiryTimer = new ExpiryTimer(ledger)
  const tasks = new BackgroundTasks(options.onError)
  const duePoller = new DuePoller({
    store,
    clock,
    lookaheadMs: options.lookaheadMs ?? lookaheadMsDefault,
    countSuspects: options.countSuspects,
    mayClaim: options.mayClaim,
    isFull: () => held.size >= 2 * heldMax || queue.size() >= 2 * heldMax,
    fullTenants: () => {
      const max = tenantMax()
      return [...ledger.held()].filter(([, count]) => count >= max).map(([tenant]) => tenant)
    },
    leftChannels: unserved.left,
    missingTemplates: options.missingTemplates,
    keep: (claimed) => claimed.filter((each) => isNews(each, ledger)).forEach(keep),
  })
  const close = (digest: Digest): Promise<void> => gate!.closeDigest(digest)
  const digestTimer = new DigestTimer({ store, members, clock, digestNames: options.digestNames, close })
  /**
   * A tenant gets half of the room. When all of it is taken, the bound shrinks so that other tenants still leave in
   * time.
   */
  const tenantMax = (): number =>
    held.size >= heldMax || queue.size() >= heldMax ? Math.min(crowdedMax, heldMax / 2) : heldMax / 2
  const hasRoom = (tenant: string): boolean => (ledger.held().get(tenant) ?? 0) < heldMax / 2
  /** Absent before the start: nothing is released until then. */
  let gate: DueGate | undefined
  let running = false
  let disarm: (() => void) | undefined
  let armedFor = Number.POSITIVE_INFINITY

  function arm(): void {
    if (!running) return
    const next = Math.min(held.leastKey ?? never, expiryTimer.next ?? never, duePoller.next, digestTimer.next)
    if (next === armedFor) return
    disarm?.()
    armedFor = next
    disarm = next === never ? undefined : clock.at(next, wake)
  }

  function wake(): void {
    armedFor = never
    const now = clock.now()
    releaseDue(now)
    for (const notification of expiryTimer.take(now)) tasks.track('expire', expire(notification, now))
    if (duePoller.next <= now) tasks.track('claim what is due', duePoller.read().finally(wake))
    if (digestTimer.next <= now) tasks.track('close digests', digestTimer.closeDue().finally(arm))
    arm()
  }

  function releaseDue(now: number): void {
    const ready: Notification[] = []
    const undecided: Notification[] = []
    while (held.leastKey !== undefined && held.leastKey <= now) {
      const notification = held.pop()!
      if (!ledger.isCurrent(notification)) continue
      if (notification.expiresAt !== undefined && notification.expiresAt <= now)
        tasks.track('expire', expire(notification, now))
      else if (notification.undecided === true) undecided.push(notification)
      else ready.push(notification)
    }
    for (const notification of ready) ledger.mark(notification, 'queued')
    if (ready.length > 0) push(ready)
    if (undecided.length > 0) tasks.track('decide what is due', gate!.resume(undecided))
  }

  function push(notifications: readonly Notification[]): void {
    for (const notification of notifications) expiryTimer.watch(notification)
    if (notifications.every(({ channel }) => unserved.serves(channel))) {
      tasks.track('queue', queue.push(notifications))
      return
    }
    const { true: served = [], false: others = [] } = Object.groupBy(notifications, ({ channel }) =>
      unserved.serves(channel) ? 'true' : 'false',
    )
    tasks.track('queue', queue.push(served))
    tasks.track('give up what has no pool here', unserved.giveUp(others, recover))
  }

  async function expire(notification: Notification, now: number): Promise<void> {
    const path = ledger.live(notification.id)?.events ?? []
    // From here on the notification is not sent, although its expiry is not yet committed.
    ledger.release(notification)
    const move = advance(notification, [...path, { at: now, status: 'expired' }])
    let result: Awaited<ReturnType<Ledger['commit']>>
    let resume: (() => Promise<void>) | undefined
    try {
      resume = await options.pauseNewcomers(notification)
      result = await ledger.commit({ moves: [move] })
    } catch (error) {
      keepUntil({ ...notification }, now + retryMs) // A copy: the queue may still have the notification itself.
      await resume?.()
      throw error
    }
    try {
      if (result.applied) await options.releaseHolds(notification, 'expired')
      else await recover(notification)
    } finally {
      await resume()
    }
  }

  async function recover(
    { tenant, id }: Pick<Notification, 'tenant' | 'id'>,
    afterMs = retryMs,
  ): Promise<void> {
    const endWatch = ledger.watch(id)
    try {
      const recorded = await store.notification(tenant, id)
      // It has moved while its record was read: what was read is outdated, and would be sent once more.
      if (endWatch()) return await recover({ tenant, id }, afterMs)
      if (recorded === undefined || ledger.live(id) !== undefined) return
      const now = clock.now()
      if ((recorded.status === 'scheduled' || awaitsLimits(recorded)) && recorded.dueAt <= now)
        keepUntil(recorded, now + afterMs)
      else place([recorded])
      arm()
    } catch (error) {
      endWatch()
      options.onError?.(`look where ${id} stands`, error)
      // Retried until the store answers; a restart would find the notification as well.
      if (running)
        clock.at(clock.now() + retryMs, () => tasks.track('recover', recover({ tenant, id }, afterMs)))
    }
  }

  const keep = (notification: Notification): void => keepUntil(notification, notification.dueAt)

  function keepUntil(notification: Notification, at: number): void {
    ledger.hold(notification)
    held.push(at, notification)
  }

  function place(notifications: readonly Notification[]): void {
    const now = clock.now()
    const ready: Notification[] = []
    const tooMany: Notification[] = []
    for (const notification of notifications) {
      const { status, dueAt, tenant } = notification
      if (status !== 'queued' && status !== 'scheduled' && status !== 'dead') continue
      if (awaitsLimits(notification) && hasRoom(tenant)) keep(notification)
      else if (status === 'queued' && dueAt <= now && queue.size() < heldMax && hasRoom(tenant)) {
        ledger.hold(notification)
        ready.push(notification)
        // Due later than the poller has read, it is free on record: other processes may claim it as well, so it is read again.
        if (dueAt > store.claimedUntil()) duePoller.note(dueAt)
      } else if (dueAt > store.claimedUntil()) duePoller.note(dueAt)
      else if (hasRoom(tenant)) keep(notification)
      else tooMany.push(notification)
    }
    if (ready.length > 0) push(ready)
    if (tooMany.length > 0) tasks.track('put back', putBack(tooMany))
    arm()
  }

  /** Returns notifications to the store when memory has no room for them. */
  async function putBack(notifications: readonly Notification[]): Promise<void> {
    try {
      await store.releaseDue(notifications)
      duePoller.noteRoom()
    } catch (error) {
      for (const notification of notifications) keep(notification)
      throw error
    } finally {
      arm()
    }
  }

  return {
    place,
    recover,
    placeFirst(notification) {
      ledger.hold(notification)
      expiryTimer.watch(notification)
      queue.giveBack([notification])
      arm()
    },
    postpone(notification, at) {
      held.push(at, notification)
      arm()
    },
    noteDigest(closesAt) {
      digestTimer.note(closesAt)
      arm()
    },
    async start(startedWith) {
      gate = startedWith
      running = true
      wake()
      await tasks.ended()
    },
    async stop() {
      running = false
      disarm?.()
      await tasks.idle()
    },
    keep(taken) {
      for (const each of taken) keep(each)
      arm()
    },
    noteFreed() {
      duePoller.noteRoom()
      arm()
    },
    takeOver() {
      duePoller.noteDeath()
      arm()
    },
    size: () => held.size,
  }
}

const never = Number.POSITIVE_INFINITY

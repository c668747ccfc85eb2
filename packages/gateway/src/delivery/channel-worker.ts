/**
 * The worker of one channel. It takes as many notifications from the queue as the channel's pools have leases for,
 * and looks again when a call ends, when a notification arrives, or when an account is free by the clock.
 */
import type { DeadCause, Notification } from '../model.ts'
import type { Clock, Queue } from '../ports.ts'
import type { AutomaticRedrive } from './automatic-redrive.ts'
import { Endpoints } from './endpoints.ts'
import type { Lease } from './pools/lease.ts'
import type { Route } from './pools/route.ts'
import { createQueueExpiry } from './queue-expiry.ts'

export interface ChannelWorkerOptions {
  readonly route: Route
  readonly automaticRedrive: AutomaticRedrive
  readonly queue: Queue
  readonly clock: Clock
  /** Sends the notifications; there are at least as many leases. */
  readonly release: (worker: ChannelWorker, pulled: readonly Notification[], leases: Lease[]) => void
  /** Makes dead letters of notifications that waited for capacity in vain. */
  readonly shed: (worker: ChannelWorker, overdue: readonly Notification[], cause: DeadCause) => void
}

export interface ChannelWorker {
  readonly route: Route
  readonly automaticRedrive: AutomaticRedrive
  /** The recipients' own endpoints that the channel's providers call. */
  readonly endpoints: Endpoints
  start(): void
  /** Takes all notifications that may be sent now. */
  pump(): void
  /** Called when a call ended. Pumps once for all calls that end in the same tick. */
  freed(): void
  /** Called when an account went out or came back. */
  changed(): void
  /** Stops taking notifications. */
  stop(): Promise<void>
}

/** Leases taken in one batch: enough to share commits and limiter calls, few enough to keep tenants' turns fair. */
const batchMax = 128
const settled = Promise.resolve()

export function createChannelWorker({
  route,
  automaticRedrive,
  queue,
  clock,
  release,
  shed,
}: ChannelWorkerOptions): ChannelWorker {
  const { channel } = route
  const queueExpiry = createQueueExpiry({
    route,
    queue,
    clock,
    shed: (overdue, cause) => shed(worker, overdue, cause),
  })
  let stopped = false
  let willPump = false
  let disarm: (() => void) | undefined

  function pump(): void {
    willPump = false
    while (!stopped) {
      const waiting = queue.size(channel)
      if (waiting === 0) {
        automaticRedrive.wake()
        return
      }
      const now = clock.now()
      const leases = route.lease(now, Math.min(batchMax, waiting), queue.critical(channel))
      if (leases.length === 0) {
        arm(now)
        queueExpiry.watch(now)
        return
      }
      const pulled = queue.pull(channel, leases.length)
      for (const lease of leases.splice(pulled.length)) lease.undo()
      if (pulled.length === 0) return
      route.pulled(pulled, now)
      release(worker, pulled, leases)
    }
  }

  function arm(now: number): void {
    const free = route.freeAt(now)
    disarm?.()
    disarm = undefined
    if (free === undefined || free === Number.POSITIVE_INFINITY) return
    disarm = clock.at(free, pump)
  }

  const worker: ChannelWorker = {
    route,
    automaticRedrive,
    endpoints: new Endpoints({
      wake(notifications) {
        queue.giveBack(notifications)
        worker.freed()
      },
    }),
    pump,
    start() {
      queue.subscribe(channel, (arrived) => {
        route.asked(clock.now(), arrived)
        pump()
      })
      pump()
      automaticRedrive.wake()
    },
    freed() {
      if (willPump) return
      willPump = true
      void settled.then(pump)
    },
    changed() {
      const now = clock.now()
      queueExpiry.watch(now)
      // Its timer may be set for an instant that has changed.
      if (queue.size(channel) > 0) arm(now)
      else automaticRedrive.changed()
    },
    async stop() {
      stopped = true
      disarm?.()
      queueExpiry.stop()
      await automaticRedrive.stop()
    },
  }
  return worker
}

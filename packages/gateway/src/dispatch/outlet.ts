/**
 * Where the notifications of one channel leave: it takes as many of them from the queue as the channel's pools have
 * leases for, and looks again when a call ends, when something arrives, or when an account is free by the clock.
 */
import type { DeadCause, Notification } from '../model.ts'
import type { Clock, Queue } from '../ports.ts'
import type { Comeback } from './comeback.ts'
import { Endpoints } from './endpoints.ts'
import type { Lease } from './lease.ts'
import type { Route } from './route.ts'
import { createShedder } from './shedder.ts'

export interface OutletOptions {
  readonly route: Route
  readonly comeback: Comeback
  readonly queue: Queue
  readonly clock: Clock
  /** Takes notifications, and leases for no fewer, on their way. */
  readonly release: (outlet: Outlet, pulled: readonly Notification[], leases: Lease[]) => void
  /** Takes what has waited for capacity in vain. */
  readonly shed: (outlet: Outlet, overdue: readonly Notification[], cause: DeadCause) => void
}

export interface Outlet {
  readonly route: Route
  readonly comeback: Comeback
  /** The recipients' own endpoints, where the channel's providers call any. */
  readonly endpoints: Endpoints
  start(): void
  /** Takes what may leave now. */
  pump(): void
  /** Something has ended that was in the way: takes what may leave when all that ends with it has ended. */
  freed(): void
  /** An account went out or came back. */
  changed(): void
  /** Takes nothing more. */
  stop(): Promise<void>
}

/** Leases taken in one round: enough to share commits and limiter calls, few enough to keep turns fair. */
const roundMax = 128
const settled = Promise.resolve()

export function createOutlet({ route, comeback, queue, clock, release, shed }: OutletOptions): Outlet {
  const { channel } = route
  const shedder = createShedder({
    route,
    queue,
    clock,
    shed: (overdue, cause) => shed(outlet, overdue, cause),
  })
  let stopped = false
  let willPump = false
  let disarm: (() => void) | undefined

  function pump(): void {
    willPump = false
    while (!stopped) {
      const waiting = queue.size(channel)
      if (waiting === 0) {
        comeback.wake()
        return
      }
      const now = clock.now()
      const leases = route.lease(now, Math.min(roundMax, waiting), queue.critical(channel))
      if (leases.length === 0) {
        arm(now)
        shedder.watch(now)
        return
      }
      const pulled = queue.pull(channel, leases.length)
      for (const lease of leases.splice(pulled.length)) lease.undo()
      if (pulled.length === 0) return
      route.pulled(pulled, now)
      release(outlet, pulled, leases)
    }
  }

  function arm(now: number): void {
    const free = route.freeAt(now)
    disarm?.()
    disarm = undefined
    if (free === undefined || free === Number.POSITIVE_INFINITY) return
    disarm = clock.at(free, pump)
  }

  const outlet: Outlet = {
    route,
    comeback,
    endpoints: new Endpoints({
      wake(notifications) {
        queue.giveBack(notifications)
        outlet.freed()
      },
    }),
    pump,
    start() {
      queue.subscribe(channel, (arrived) => {
        route.asked(clock.now(), arrived)
        pump()
      })
      pump()
      comeback.wake()
    },
    freed() {
      if (willPump) return
      willPump = true
      void settled.then(pump)
    },
    changed() {
      const now = clock.now()
      shedder.watch(now)
      // Its timer may wait for what has changed.
      if (queue.size(channel) > 0) arm(now)
      else comeback.changed()
    },
    async stop() {
      stopped = true
      disarm?.()
      shedder.stop()
      await comeback.stop()
    },
  }
  return outlet
}

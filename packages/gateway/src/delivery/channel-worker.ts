/**
 * The worker of one channel. It takes as many notifications from the queue as the channel's pools have leases for and
 * makes an attempt of each. It looks again when an attempt has finished, when a notification arrives, and when an
 * account is free by the clock.
 */
import type { Clock, Queue } from '../ports.ts'
import type { Attempts } from './attempts.ts'
import type { AutomaticRedrive } from './automatic-redrive.ts'
import { storeRetryMs } from './completer.ts'
import type { Endpoints } from './endpoints.ts'
import type { Route } from './pools/route.ts'
import { createQueueExpiry, type Shed } from './queue-expiry.ts'
import type { SendBatch } from './send-batch.ts'
import { SendWindow } from './send-window.ts'

export interface ChannelWorkerOptions {
  readonly route: Route
  readonly automaticRedrive: AutomaticRedrive
  readonly queue: Queue
  readonly clock: Clock
  readonly attempts: Attempts
  readonly endpoints: Endpoints
  readonly send: SendBatch
  readonly shed: Shed
  readonly onError: (what: string, error: unknown) => void
}

export interface ChannelWorker {
  start(): void
  /** Stops taking notifications. */
  stop(): Promise<void>
}

/** Leases taken in one batch: enough to share commits and limiter calls, few enough to keep tenants' turns fair. */
const batchMax = 128
const resolved = Promise.resolve()

export function createChannelWorker(options: ChannelWorkerOptions): ChannelWorker {
  const { route, automaticRedrive, queue, clock, attempts, endpoints, send, shed, onError } = options
  const { channel } = route
  const queueExpiry = createQueueExpiry({ route, queue, clock, shed })
  const sendWindow = new SendWindow()
  let stopped = false
  let willPump = false
  /** True if notifications wait for a batch to end. */
  let isWindowFull = false
  let disarm: (() => void) | undefined

  attempts.onFinished(({ state, wasTooLate, notification }) => {
    if (wasTooLate) queue.giveBack([notification])
    // Another attempt may be released because the store is away: its batch says when to look again.
    if (state === 'settled' || wasTooLate) pumpSoon()
  })
  endpoints.onRoom((notifications) => {
    queue.giveBack(notifications)
    pumpSoon()
  })

  for (const pool of route.pools) pool.onNews(changed)

  /** Takes all notifications that may be sent now. */
  function pump(): void {
    willPump = false
    while (!stopped) {
      const waiting = queue.size(channel)
      if (waiting === 0) {
        automaticRedrive.wake()
        return
      }
      isWindowFull = sendWindow.room === 0
      if (isWindowFull) return
      const now = clock.now()
      const most = Math.min(batchMax, waiting, sendWindow.room)
      const leases = route.lease(now, most, queue.critical(channel))
      if (leases.length === 0) {
        arm(now)
        queueExpiry.watch(now)
        return
      }
      const pulled = queue.pull(channel, leases.length)
      for (const lease of leases.splice(pulled.length)) lease.undo()
      if (pulled.length === 0) return
      route.pulled(pulled, now)
      void sendAll(pulled.map((notification, index) => attempts.begin(notification, leases[index]!)))
    }
  }

  async function sendAll(batch: Parameters<SendBatch>[0]): Promise<void> {
    sendWindow.begin(batch.length)
    try {
      const late = await send(batch)
      sendWindow.end(batch.length, late)
      if (isWindowFull || batch.some(({ state }) => state === 'released')) pumpSoon()
    } catch (error) {
      sendWindow.end(batch.length, 0)
      onError('dispatch', error)
      clock.at(clock.now() + storeRetryMs, pump)
    }
  }

  /** Pumps once for everything that happens in the same tick. */
  function pumpSoon(): void {
    if (willPump) return
    willPump = true
    void resolved.then(pump)
  }

  function arm(now: number): void {
    const free = route.freeAt(now, queue.critical(channel) > 0)
    disarm?.()
    disarm = undefined
    if (free === undefined || free === Number.POSITIVE_INFINITY) return
    disarm = clock.at(free, pump)
  }

  /** Looks again after an account went out or came back. */
  function changed(): void {
    const now = clock.now()
    queueExpiry.watch(now)
    // Its timer may be set for an instant that has changed.
    if (queue.size(channel) > 0) arm(now)
    automaticRedrive.changed()
  }

  return {
    start() {
      queue.subscribe(channel, (arrived) => {
        route.asked(clock.now(), arrived)
        pump()
      })
      pump()
      automaticRedrive.wake()
    },
    async stop() {
      stopped = true
      disarm?.()
      queueExpiry.stop()
      await automaticRedrive.stop()
    },
  }
}

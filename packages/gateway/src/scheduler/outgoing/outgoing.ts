/**
 * The send queue with a broker in front of it: due notifications are published to the queue of their tenant, and come
 * back to whichever gateway takes them from there, into the queue of that process. While the broker is away they go into
 * the queue of this process at once. Decision record 0041 says why it is so.
 */
import type { Notification } from '../../model.ts'
import type { Members } from '../../ports/fleet.ts'
import type { LeftToBroker, OutgoingQueues, OutgoingReport } from '../../ports/outgoing.ts'
import type { Clock, Queue } from '../../ports.ts'
import type { Ledger } from '../../stages.ts'
import { Publisher } from './publisher.ts'
import { Repair } from './repair.ts'
import { Taker } from './taker.ts'

export interface OutgoingOptions {
  /** The queue of this process. */
  readonly embedded: Queue
  readonly queues: OutgoingQueues
  readonly left: LeftToBroker
  readonly ledger: Pick<Ledger, 'isCurrent' | 'release' | 'live' | 'watch' | 'subscribe'>
  readonly members: Pick<Members, 'id' | 'holds'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly onAway?: (error: unknown) => void
  readonly onBack?: (awayMs: number) => void
  readonly onMade?: (tenant: string) => void
  readonly onDiffers?: (tenant: string, reason: string) => void
  readonly onForeign?: (tenant: string) => void
  readonly onError: (what: string, error: unknown) => void
  /** Time between two looks of the repair. @defaultValue 5_000 ms */
  readonly lookEveryMs?: number
}

/** The part of the scheduler that the queue calls; the scheduler is created after the queue. */
interface OutgoingScheduler {
  keep(taken: readonly Notification[]): void
  postpone(notification: Notification, at: number): void
  noteFreed(): void
}

export interface OutgoingQueue extends Queue {
  /** Begins to publish and to take. Before that everything stays in the queue of this process. */
  start(scheduler: OutgoingScheduler): void
  /** Takes nothing more, and publishes nothing more. */
  stop(): Promise<void>
  report(): OutgoingReport
}

/** Messages of a tenant that are given to this process before they are acknowledged; fewer where there are many tenants. */
const prefetchMax = 2_000
const prefetchMin = 10
/** The same of all tenants. */
const prefetchTotal = 20_000
/** A notification whose queue is full is published again after this time, ms. */
const fullMs = 1_000
/** Notifications that have left are forgotten at the latest after this time, ms. */
const sweepMs = 1_000

export function createOutgoingQueue(options: OutgoingOptions): OutgoingQueue {
  const { embedded, queues, left, ledger, members, clock, onError } = options
  let scheduler: OutgoingScheduler | undefined
  let isRunning = false
  let disarm = (): void => {}
  const sendHere = (notifications: readonly Notification[]): void => void embedded.push(notifications)
  const prefetchOf = (): number =>
    Math.max(prefetchMin, Math.min(prefetchMax, Math.trunc(prefetchTotal / Math.max(1, repair.tenants))))
  const publisher = new Publisher({
    queues,
    left,
    ledger,
    clock,
    member: members.id,
    sendHere,
    onFull: (notification) => scheduler!.postpone(notification, clock.now() + fullMs),
    onError,
  })
  const taker = new Taker({
    left,
    ledger,
    clock,
    publisher,
    member: members.id,
    keep: (taken) => scheduler!.keep(taken),
    sendHere,
    prefetchOf,
    onError,
  })
  const repair = new Repair({
    queues,
    left,
    members,
    clock,
    waiting: taker.waiting,
    prefetchOf,
    onFreed: () => scheduler!.noteFreed(),
    onError,
    ...(options.lookEveryMs === undefined ? {} : { everyMs: options.lookEveryMs }),
  })

  function sweep(): void {
    taker.sweep()
    disarm = clock.at(clock.now() + sweepMs, sweep)
  }

  return {
    ...embedded,
    async push(notifications) {
      const goesOut = ({ id }: Notification): boolean => isRunning && queues.isOpen() && !taker.has(id)
      const out = notifications.filter(goesOut)
      const here = out.length === 0 ? notifications : notifications.filter((each) => !out.includes(each))
      if (here.length > 0) await embedded.push(here)
      for (const tenant of new Set(out.map((each) => each.tenant))) repair.use(tenant)
      await Promise.all(out.map((each) => publisher.publish(each)))
    },
    start(startedWith) {
      scheduler = startedWith
      isRunning = true
      queues.open({
        onDelivery(delivery) {
          repair.passed(delivery.message)
          taker.add(delivery)
        },
        onMade(tenant) {
          options.onMade?.(tenant)
          repair.made(tenant)
        },
        onOpen() {
          const { awaySince } = repair
          repair.back()
          if (awaySince !== undefined) options.onBack?.(clock.now() - awaySince)
        },
        onAway(error) {
          if (repair.awaySince === undefined) options.onAway?.(error)
          repair.away()
        },
        onReturned: () => taker.clear(),
        onDiffers: (tenant, reason) => options.onDiffers?.(tenant, reason),
        onForeign: (tenant) => options.onForeign?.(tenant),
      })
      taker.start()
      repair.start()
      sweep()
    },
    async stop() {
      isRunning = false
      disarm()
      await repair.stop()
      await taker.stop()
    },
    report: () => ({
      isOpen: isRunning && queues.isOpen(),
      awaySince: repair.awaySince,
      tenants: repair.tenants,
      ...publisher.counts,
      ...taker.counts,
      ...repair.counts,
    }),
    async close() {
      await queues.close()
      await embedded.close()
    },
  }
}

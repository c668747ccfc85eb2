/**
 * The throttle state of one process, in memory: the queues of all tenants (throttle-queues.ts), restored from the store.
 * It answers without a promise once a queue is in memory.
 */
import type { ThrottlePassed, ThrottlePlace, ThrottleRequest, ThrottleState } from '../../../ports/tenants.ts'
import type { Clock } from '../../../ports.ts'
import type { ThrottleQueue } from './throttle-queue.ts'
import { createThrottleQueues, type ThrottleQueuesOptions } from './throttle-queues.ts'

export function createMemoryThrottle(options: ThrottleQueuesOptions): ThrottleState {
  const clock: Clock = options.clock
  const queues = createThrottleQueues(options)

  /** Asks the queue of a tenant: at once where it is in memory. */
  function ask<T>(tenant: string, question: (queue: ThrottleQueue | undefined) => T): T | Promise<T> {
    const queue = queues.of(tenant)
    return queue instanceof Promise ? queue.then(question) : question(queue)
  }

  /** The same for what may let entries move up. */
  function change<T>(tenant: string, work: (queue: ThrottleQueue | undefined) => T): T | Promise<T> {
    return ask(tenant, (queue) => {
      const result = work(queue)
      queue?.closeUp(clock.now())
      queues.rearm(tenant)
      return result
    })
  }

  function pass(queue: ThrottleQueue, requests: readonly ThrottleRequest[]): ThrottlePassed {
    const now = clock.now()
    const places: ThrottlePlace[] = []
    let use: ThrottlePassed['use']
    for (const { id, module, expiresAt, isCritical } of requests) {
      if (isCritical) {
        queue.count(module, now)
        places.push({ at: now, waits: false, behind: 'tenant' })
        continue
      }
      if (use === undefined && queue.peek(module, now).waits) use = queue.use(module, now)
      places.push(queue.join(module, id, now, expiresAt))
    }
    return use === undefined ? { places } : { places, use }
  }

  return {
    pass: (tenant, requests) => ask(tenant, (queue) => queue && pass(queue, requests)),
    takeBack: (tenant, requests) =>
      change(tenant, (queue) => {
        for (const { id, module, place } of requests.toReversed())
          if (place.waits) queue?.leave(module, id, clock.now())
          else queue?.uncount(module, place.at)
      }),
    turn: (tenant, requests) =>
      change(tenant, (queue) => {
        const now = clock.now()
        return requests.map(({ id, module }) => queue?.turn(module, id, now) ?? { passed: true, at: now })
      }),
    putBack: (tenant, requests) =>
      ask(tenant, (queue) => {
        for (const { id, module, at } of requests) queue?.putBack(module, id, at)
      }),
    leave: (tenant, requests) =>
      change(tenant, (queue) => {
        for (const { id, module, isCounted } of requests) queue?.leave(module, id, clock.now(), isCounted)
      }),
    preview: (tenant, module) =>
      ask(tenant, (queue) => {
        const now = clock.now()
        return queue && { ...queue.peek(module, now), use: queue.use(module, now) }
      }),
    use: (tenant, module) =>
      queues.isLimited(tenant) ? ask(tenant, (queue) => queue?.use(module, clock.now()) ?? []) : [],
    placeOf: (tenant, { id, module }) => ask(tenant, (queue) => queue?.placeOf(module, id)),
    start: queues.start,
    stop: queues.stop,
  }
}

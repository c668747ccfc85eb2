/**
 * Decides which request is begun next. The event loop starts new requests in slices, and polls the sockets
 * between two slices. Requests that do not fit into a slice wait in a queue for each fairness key (a tenant),
 * and the queues take turns (round robin), one request each: a tenant with many connections waits for itself,
 * and the others for one slice.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'

export interface FairRequestSchedulerOptions {
  readonly handle: RequestListener
  /** The fairness key of a request. Called only while requests wait. */
  readonly fairnessKeyOf: (request: IncomingMessage) => FairnessKey
  /** Called with 1 for a request that has to wait, and with -1 when its turn comes. @defaultValue nothing counts */
  readonly onWaiting?: ((by: 1 | -1) => void) | undefined
}

/** A tenant, or another group of requests that share their turns. */
type FairnessKey = string | symbol

/** The time slice of the event loop. */
const sliceMs = 1

interface WaitingRequest {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The next request of the queue. */
  next: WaitingRequest | undefined
}

/** The requests of one fairness key that wait, as a linked list. */
interface RequestQueue {
  first: WaitingRequest
  last: WaitingRequest
}

export function createFairRequestScheduler({
  handle,
  fairnessKeyOf,
  onWaiting,
}: FairRequestSchedulerOptions): RequestListener {
  /** The queues in the order of their turns; the connections bound how many requests wait. */
  const queues = new Map<FairnessKey, RequestQueue>()
  let sliceBegan = 0
  let sliceOf = -1
  let isAwaited = false

  /**
   * True while this turn of the event loop has time left. The loop's own count tells one turn from the next: an
   * immediate in each would keep the loop from waiting for more before it goes on.
   */
  function hasTime(): boolean {
    const now = performance.now()
    if (now - sliceBegan < sliceMs) return true
    const { loopCount } = performance.nodeTiming.uvMetricsInfo
    if (loopCount === sliceOf) return false
    sliceOf = loopCount
    sliceBegan = now
    return true
  }

  function awaitNext(): void {
    if (isAwaited) return
    isAwaited = true
    setImmediate(() => {
      isAwaited = false
      if (queues.size === 0) return
      sliceBegan = performance.now()
      sliceOf = performance.nodeTiming.uvMetricsInfo.loopCount
      serve()
    })
  }

  function serve(): void {
    handleFirst()
    // After all that this request can do without waiting, so that it is part of the slice.
    if (queues.size > 0) queueMicrotask(() => process.nextTick(serveMore))
  }

  function serveMore(): void {
    if (queues.size === 0) return
    if (performance.now() - sliceBegan < sliceMs) serve()
    else awaitNext()
  }

  function handleFirst(): void {
    const [[fairnessKey, queue]] = queues as unknown as [[FairnessKey, RequestQueue]]
    const { request, response, next } = queue.first
    queues.delete(fairnessKey)
    if (next !== undefined) {
      queue.first = next
      queues.set(fairnessKey, queue)
    }
    onWaiting?.(-1)
    // A request whose client has disconnected is not handled.
    if (!response.destroyed) handle(request, response)
  }

  function enqueue(request: IncomingMessage, response: ServerResponse): void {
    const fairnessKey = fairnessKeyOf(request)
    const waiting: WaitingRequest = { request, response, next: undefined }
    onWaiting?.(1)
    const queue = queues.get(fairnessKey)
    if (queue === undefined) queues.set(fairnessKey, { first: waiting, last: waiting })
    else {
      queue.last.next = waiting
      queue.last = waiting
    }
    awaitNext()
  }

  return (request, response) => {
    if (queues.size === 0 && hasTime()) handle(request, response)
    else enqueue(request, response)
  }
}

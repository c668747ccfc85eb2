/**
 * A deadline for every call, cheaply. All calls have the same time, so they run out in the order in which they came:
 * one queue and one timer for its head serve all of them, where a timer a call would cost as much as the call.
 */
import { checkWhole, LimitsError, type LimitsErrorCode } from '../errors.ts'
import { codeOf, type RedisClient, standingOf } from './redis-client.ts'

/** Answers a call to wait for instead of the failed one, or undefined where the failure stands. */
export type Again<A> = (cause: unknown) => Promise<A> | undefined

interface Pending {
  /** Undefined once it has been answered. */
  reject: ((error: LimitsError) => void) | undefined
  readonly endsAtMs: number
}

/** Clients that had a connection once: what they do not answer later is an outage, and no fault of the program. */
const connected = new WeakSet<RedisClient>()

/** The queue is cut when so many answered calls lie in it. */
const answeredMax = 1_024

/**
 * Reads an answer, or rejects with the code of its failure, `STORE_UNAVAILABLE` when it does not come in time, and
 * `STORE_NOT_READY` where the client had never been connected by then. `again` may ask once more after a failure,
 * within the same time. All in one promise, because each more costs as much as the reading.
 *
 * @throws LimitsError `INVALID_ARGUMENT`
 */
export function createDeadline(
  client: RedisClient,
  deadlineMs: number,
  onError: ((error: LimitsError) => void) | undefined,
): <A, T>(answer: Promise<A>, read: (answer: A) => T, again: Again<A>) => Promise<T> {
  checkWhole('deadlineMs', deadlineMs, 1, 2 ** 31 - 1)
  let queue: Pending[] = []
  let head = 0
  let timer: ReturnType<typeof setTimeout> | undefined
  let waiting = 0
  let wasReady = false

  function hasBeenReady(): boolean {
    wasReady ||= connected.has(client) || standingOf(client) === 'ready'
    if (wasReady) connected.add(client)
    return wasReady
  }

  function fail(
    reject: (error: LimitsError) => void,
    code: LimitsErrorCode,
    reason: string,
    cause?: unknown,
  ): void {
    const error = new LimitsError(code, `Redis ${reason}`, { cause })
    onError?.(error)
    reject(error)
  }

  /** A process may end when nobody waits for an answer, whatever the timer was set for. */
  function settle(pending: Pending): void {
    pending.reject = undefined
    waiting -= 1
    if (waiting === 0) timer?.unref()
  }

  function arm(): void {
    timer = setTimeout(expire, Math.max(1, queue[head]!.endsAtMs - performance.now()))
  }

  /** Fails what is due, and sleeps until the next one is; everything that was answered is passed by. */
  function expire(): void {
    timer = undefined
    const nowMs = performance.now()
    while (head < queue.length) {
      const { reject, endsAtMs } = queue[head]!
      if (reject !== undefined && endsAtMs > nowMs) break
      head += 1
      if (reject === undefined) continue
      settle(queue[head - 1]!)
      if (hasBeenReady()) fail(reject, 'STORE_UNAVAILABLE', `did not answer within ${deadlineMs} ms`)
      else
        fail(reject, 'STORE_NOT_READY', `was not connected within ${deadlineMs} ms: connect the client first`)
    }
    if (head === queue.length) {
      queue = []
      head = 0
    } else arm()
  }

  return <A, T>(answer: Promise<A>, read: (answer: A) => T, again: Again<A>) =>
    new Promise<T>((resolve, reject) => {
      const pending: Pending = { reject, endsAtMs: performance.now() + deadlineMs }
      queue.push(pending)
      waiting += 1
      if (timer === undefined) arm()
      else if (waiting === 1) timer.ref()
      while (head < queue.length && queue[head]!.reject === undefined) head += 1
      if (head > answeredMax) {
        queue = queue.slice(head)
        head = 0
      }
      const succeed = (value: A): void => {
        if (pending.reject === undefined) return
        settle(pending)
        if (!wasReady) hasBeenReady()
        try {
          resolve(read(value))
        } catch (error) {
          reject(error)
        }
      }
      const stop = (cause: unknown): void => {
        if (pending.reject === undefined) return
        settle(pending)
        const said = cause instanceof Error ? cause.message : String(cause)
        fail(reject, codeOf(cause, hasBeenReady(), client), `could not be asked: ${said}`, cause)
      }
      answer.then(succeed, (cause: unknown) => {
        const other = again(cause)
        if (other === undefined) stop(cause)
        else other.then(succeed, stop)
      })
    })
}

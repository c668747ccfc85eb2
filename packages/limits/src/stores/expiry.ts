/**
 * The queue of subjects in memory by the time of their next look, so that each goes soon after it is over and none is looked at
 * much more often than once in its longest window. A subject stands in one bucket, by the instant at which it may be
 * over; a bucket is an eighth of the time from now on wide at most, so that there are few of them and none is sorted.
 *
 * Going round all of them instead, two for each that comes, made each new subject touch the memory of two others, and
 * forgot nothing where nobody new came.
 */

/** A timer looks at so many items in one turn of the event loop, which takes some milliseconds. */
const looksPerTurn = 5_000
/** The longest that setTimeout waits; whatever is due later is asked for again. */
const timerMsMax = 2 ** 31 - 1

export interface ExpiryQueue<T> {
  /** The instant at which the first bucket is due, epoch ms. */
  nextMs: number
  add(item: T, now: number, dueMs: number): void
  /** Says that an item has left by another way. Items that have are let go when they are the half. */
  noteRemoved(): void
  /** Looks at no more than `looksMax` items that are due. */
  sweep(now: number, looksMax: number): void
  /** Looks at items that are due, for the timer. */
  wake(): void
}

/**
 * @param expire drops what is over; answers when to look again, or undefined where the item is gone
 * @param isKnown false for items that have left by another way
 * @param clock by which a timer looks too; without one only calls do
 */
export function createExpiryQueue<T>(
  expire: (item: T, now: number) => number | undefined,
  isKnown: (item: T) => boolean,
  clock: (() => number) | undefined,
): ExpiryQueue<T> {
  const buckets = new Map<number, T[]>()
  let timer: ReturnType<typeof setTimeout> | undefined
  let size = 0
  let leftCount = 0

  const findNext = (): void => {
    queue.nextMs = Math.min(Infinity, ...buckets.keys())
  }
  const arm = (now: number): void => {
    if (timer === undefined && clock !== undefined && queue.nextMs < Infinity)
      timer = startTimer(new WeakRef(queue), queue.nextMs - now)
  }

  const queue: ExpiryQueue<T> = {
    nextMs: Infinity,
    add(item, now, dueMs) {
      const width = 2 ** Math.max(0, Math.floor(Math.log2(Math.max(1, dueMs - now))) - 3)
      const at = Math.ceil(dueMs / width) * width
      const bucket = buckets.get(at)
      if (bucket === undefined) buckets.set(at, [item])
      else bucket.push(item)
      size += 1
      if (at < queue.nextMs) queue.nextMs = at
      arm(now)
    },
    noteRemoved() {
      leftCount += 1
      if (2 * leftCount <= size) return
      size = 0
      leftCount = 0
      for (const [at, bucket] of buckets) {
        const kept = bucket.filter(isKnown)
        size += kept.length
        if (kept.length > 0) buckets.set(at, kept)
        else buckets.delete(at)
      }
      findNext()
    },
    sweep(now, looksMax) {
      for (let looks = 0; looks < looksMax && now >= queue.nextMs; looks += 1) {
        const bucket = buckets.get(queue.nextMs)!
        const item = bucket.pop()!
        size -= 1
        if (bucket.length === 0) {
          buckets.delete(queue.nextMs)
          findNext()
        }
        if (!isKnown(item)) {
          leftCount -= 1
          continue
        }
        const next = expire(item, now)
        if (next !== undefined) queue.add(item, now, Math.max(next, now + 1))
      }
    },
    wake() {
      timer = undefined
      const now = clock!()
      queue.sweep(now, looksPerTurn)
      arm(now)
    },
  }
  return queue
}

/** The timer keeps neither the process nor the queue alive: its callback sees nothing but this weak reference. */
function startTimer(queue: WeakRef<{ wake(): void }>, ms: number): ReturnType<typeof setTimeout> {
  const timer = setTimeout(() => queue.deref()?.wake(), Math.min(timerMsMax, Math.max(1, ms)))
  // Elsewhere than in Node a timer is a number.
  timer.unref?.()
  return timer
}

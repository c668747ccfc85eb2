/**
 * Newcomers of a subject that are held up, by whichever process, stand in a queue, so that none overtakes another one of this
 * process. The first of the queue asks again and again; when it is let in, all others ask in one turn. A newcomer that comes
 * while there is a queue joins it without a question.
 */
import { HeldUpError } from '../../../errors.ts'
import type { Clock } from '../../../ports.ts'
import type { Reply } from './redis-answers.ts'

export interface HeldUpQueues {
  /**
   * Asks until the answer is another one than `paused`. Rejects with `HeldUpError` where newcomers are still held up at
   * `endsAt`, an instant of `Clock.monotonic`.
   */
  ask(subject: string, endsAt: number, question: () => Promise<readonly Reply[]>): Promise<readonly Reply[]>
  /** Lets all ask now: the rules have changed, and whoever has questions of before asks anew, before those who come later. */
  renew(): void
}

/** A newcomer that waits for its turn. */
interface Waiter {
  /** The order in which newcomers came. */
  readonly place: number
  /** Lets it ask, in this turn of the event loop. */
  readonly begin: () => void
}

interface Queue {
  /** In the order of their places. */
  readonly waiting: Waiter[]
  /** Questions under way. None is asked beside them: it would be answered before one of them that is told to wait on. */
  asking: number
  /** Rounds of questions in a row of which one was answered `paused`. */
  rounds: number
  isPaused: boolean
  nextRound: NodeJS.Timeout | undefined
}

/** Pauses before the first of a queue asks again, ms. */
export const pausesMs = [5, 10, 20, 40] as const

export const isHeldUp = (reply: readonly Reply[]): boolean => String(reply[0]) === 'paused'

export function createHeldUpQueues(clock: Pick<Clock, 'monotonic'>): HeldUpQueues {
  /** By subject; as many as there are with newcomers of this process that are held up. */
  const queues = new Map<string, Queue>()
  let places = 0

  function queueOf(subject: string): Queue {
    let queue = queues.get(subject)
    if (queue === undefined) {
      queue = { waiting: [], asking: 0, rounds: 0, isPaused: true, nextRound: undefined }
      queues.set(subject, queue)
    }
    return queue
  }

  function letAsk(queue: Queue, count: number): void {
    const next = queue.waiting.splice(0, count)
    queue.asking = next.length
    queue.isPaused = false
    for (const { begin } of next) begin()
  }

  /** Begins the next round where nothing is asked. */
  function goOn(subject: string, queue: Queue): void {
    if (queue.asking > 0) return
    if (queue.waiting.length === 0) {
      clearTimeout(queue.nextRound)
      queues.delete(subject)
    } else if (!queue.isPaused) {
      queue.rounds = 0
      letAsk(queue, queue.waiting.length)
    } else if (queue.nextRound === undefined) {
      const pauseMs = pausesMs[Math.min(queue.rounds, pausesMs.length - 1)]
      queue.rounds += 1
      queue.nextRound = setTimeout(() => {
        queue.nextRound = undefined
        letAsk(queue, 1)
      }, pauseMs)
    }
  }

  /** Waits for the turn of a newcomer; false where it has not come at the instant. */
  function turnIn(subject: string, queue: Queue, place: number, endsAt: number): Promise<boolean> {
    return new Promise((resolve) => {
      const { waiting } = queue
      const timer = setTimeout(
        () => {
          waiting.splice(waiting.indexOf(waiter), 1)
          resolve(false)
          goOn(subject, queue)
        },
        Math.max(0, endsAt - clock.monotonic()),
      )
      const waiter: Waiter = {
        place,
        begin() {
          clearTimeout(timer)
          resolve(true)
        },
      }
      waiting.splice(waiting.findLastIndex((each) => each.place < place) + 1, 0, waiter)
      goOn(subject, queue)
    })
  }

  return {
    renew() {
      for (const queue of queues.values()) {
        clearTimeout(queue.nextRound)
        queue.nextRound = undefined
        const next = queue.waiting.splice(0)
        queue.asking += next.length
        for (const { begin } of next) begin()
      }
    },
    async ask(subject, endsAt, question) {
      places += 1
      const place = places
      if (!queues.has(subject)) {
        const reply = await question()
        if (!isHeldUp(reply)) return reply
      }
      // The queue is empty, or it exists: nothing is awaited between this look and the place in it.
      const queue = queueOf(subject)
      for (let turn = turnIn(subject, queue, place, endsAt); ; ) {
        if (!(await turn)) throw new HeldUpError(subject)
        try {
          const reply = await question()
          if (!isHeldUp(reply)) return reply
          queue.isPaused = true
          turn = turnIn(subject, queue, place, endsAt)
        } finally {
          queue.asking -= 1
          goOn(subject, queue)
        }
      }
    },
  }
}

/**
 * Withholds queued notifications that must not leave now: while this process keeps the limits in its memory, those of
 * categories that the policy does not share. They return to the queue when that has ended.
 */
import type { Channel, Notification } from '../model.ts'
import type { Queue } from '../ports.ts'

export interface WithholdingQueue extends Queue {
  /** Returns what was withheld to the front of the queue. To be called when less is withheld than before. */
  restore(): void
}

export function createWithholdingQueue(
  queue: Queue,
  withholds: (notification: Notification) => boolean,
): WithholdingQueue {
  /** At most what memory holds. */
  let withheld: Notification[] = []

  function pull(channel: Channel, max: number): readonly Notification[] {
    for (;;) {
      const pulled = queue.pull(channel, max)
      const free = pulled.filter((each) => !withholds(each))
      if (free.length < pulled.length) withheld.push(...pulled.filter(withholds))
      if (free.length > 0 || pulled.length === 0) return free
    }
  }

  return {
    push: (notifications) => queue.push(notifications),
    giveBack: (notifications) => queue.giveBack(notifications),
    pull,
    subscribe: (channel, wake) => queue.subscribe(channel, wake),
    size: (channel) =>
      queue.size(channel) +
      withheld.filter((each) => channel === undefined || each.channel === channel).length,
    critical: (channel) => queue.critical(channel),
    oldest: (channel) => queue.oldest(channel),
    oldestDue: (channel) => queue.oldestDue(channel),
    takeOverdue: (channel, since, max) => queue.takeOverdue(channel, since, max),
    close: () => queue.close(),
    restore() {
      const back = withheld
      withheld = []
      if (back.length > 0) queue.giveBack(back)
    },
  }
}

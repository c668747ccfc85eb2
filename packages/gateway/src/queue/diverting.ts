/** Takes notifications out of a queue that are not to be sent by this process, at the moment at which they would leave. */
import type { Notification } from '../model.ts'
import type { Queue } from '../ports.ts'

/** @param divert is given what was taken out, and brings it on its way */
export function createDivertingQueue(
  queue: Queue,
  isDiverted: (notification: Notification) => boolean,
  divert: (notifications: readonly Notification[]) => void,
): Queue {
  return {
    ...queue,
    pull(channel, max) {
      const pulled = queue.pull(channel, max)
      if (!pulled.some(isDiverted)) return pulled
      const own: Notification[] = []
      const others: Notification[] = []
      for (let page = pulled; page.length > 0; page = queue.pull(channel, max - own.length))
        for (const each of page) (isDiverted(each) ? others : own).push(each)
      divert(others)
      return own
    },
  }
}

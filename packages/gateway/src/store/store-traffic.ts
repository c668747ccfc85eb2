/** Reads traffic through a store that is open: the record of a simulation, which no other connection can see. */
import type { Notification } from '../model.ts'
import type { FeedbackEvent } from '../ports/feedback.ts'
import type { TrafficSource } from '../ports/traffic.ts'
import type { Store } from '../ports.ts'

/** Rows of a question: a store in memory sorts all of its rows for each. */
const rowsMax = 10_000
/** Recipients, or notifications with their feedback, that a store reads at once. */
const keysMax = 1_000

/** A tenant is one page, for its record is in memory anyway. Closing this source leaves the store open. */
export function trafficOf(store: Pick<Store, 'list' | 'recipients' | 'tallies' | 'feedback'>): TrafficSource {
  return {
    tenants: async () => [...new Set((await store.tallies()).map(({ tenant }) => tenant))].sort(),
    async page({ tenant, from, to }) {
      const newestFirst: Notification[] = []
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const query = { tenant, from, to, limit: rowsMax }
        const page = await store.list(cursor === undefined ? query : { ...query, cursor })
        newestFirst.push(...page.items)
        cursor = page.nextCursor
      }
      return { items: newestFirst.reverse(), nextCursor: null }
    },
    async recipients(keys) {
      const found: Awaited<ReturnType<TrafficSource['recipients']>>[number][] = []
      for (let first = 0; first < keys.length; first += keysMax)
        for (const each of await store.recipients(keys.slice(first, first + keysMax)))
          found.push(each instanceof Error ? undefined : each)
      return found
    },
    async feedback(tenant, ids) {
      const found: FeedbackEvent[] = []
      for (let first = 0; first < ids.length; first += keysMax)
        found.push(...(await store.feedback.of(tenant, ids.slice(first, first + keysMax))))
      return found
    },
    close: async () => {},
  }
}

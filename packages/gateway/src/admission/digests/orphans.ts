/**
 * Adopts orphans: digest items whose digest is not open, which would never end. A closing looks at every item, so there
 * should be none: a scan at the start and every ten minutes makes sure of it. It reports, counts and decides them anew:
 * each joins the digest that is open now, or leaves.
 */

import type { Notification } from '../../model.ts'
import type { Members } from '../../ports/fleet.ts'
import type { Clock, Page, Store } from '../../ports.ts'
import type { Redecision } from '../redecision.ts'

export interface OrphansOptions {
  readonly store: Pick<Store, 'orphans'>
  readonly gate: Pick<Redecision, 'adopt'>
  /** One process of a fleet scans for all. */
  readonly members: Pick<Members, 'holds'>
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

export interface Orphans {
  /** Counts orphans that were found and not yet adopted. */
  count(): number
  /** Starts the scans; resolves when the orphans of the first scan are adopted. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** Items of one page. */
const pageMax = 25
/** Interval of the scans. One over a million items in 100,000 digests takes the store's thread 0.5 s, in slices of 2 ms. */
const everyMs = 10 * 60_000

export function createOrphans({ store, gate, members, clock, onError }: OrphansOptions): Orphans {
  let count = 0
  let running = false
  let working: Promise<void> = Promise.resolve()
  let disarm = (): void => {}

  async function adoptAll(items: readonly Notification[]): Promise<number> {
    let adopted = 0
    for (const item of items) {
      try {
        await gate.adopt(item)
        adopted += 1
      } catch (error) {
        onError(`bring item ${item.id} on its way, whose digest is not open`, error)
      }
    }
    return adopted
  }

  /** Scans for orphans and adopts them; the rest of a digest with more than a page of them is found by the next scan. */
  async function scan(): Promise<void> {
    let found = 0
    let left = 0
    let cursor: string | null = null
    do {
      const page: Page<Notification> = await store.orphans(cursor, pageMax)
      found += page.items.length
      count = Math.max(count, left + page.items.length)
      left += page.items.length - (await adoptAll(page.items))
      cursor = page.nextCursor
    } while (cursor !== null && running)
    count = left
    if (found > 0)
      onError(
        'digests',
        new Error(`${found} items were in no open digest: ${found - left} of them are on their way`),
      )
    if (found > left && running) await scan()
  }

  function round(): Promise<void> {
    working = (members.holds('orphans') ? scan() : Promise.resolve())
      .catch((error: unknown) => onError('look for items without an open digest', error))
      .finally(() => {
        if (running) disarm = clock.at(clock.now() + everyMs, round)
      })
    return working
  }

  return {
    count: () => count,
    start() {
      running = true
      return round()
    },
    async stop() {
      running = false
      disarm()
      await working
    },
  }
}

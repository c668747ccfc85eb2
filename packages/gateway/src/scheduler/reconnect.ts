/**
 * Makes notifications due when their offline recipient connects, including any that the scheduler holds in memory
 * because it expires soon. Notifications already on their way are left alone.
 */

import { advance, awaitsConnection, type Notification } from '../model.ts'
import type { Clock, Page, Store } from '../ports.ts'
import type { Ledger, Scheduler } from '../stages.ts'

export interface ReconnectOptions {
  readonly store: Pick<Store, 'waiting'>
  readonly ledger: Pick<Ledger, 'commit' | 'live' | 'release'>
  readonly scheduler: Pick<Scheduler, 'place' | 'recover'>
  readonly clock: Pick<Clock, 'now'>
  readonly onError: (what: string, error: unknown) => void
}

/** Rows of one recipient held in memory at once. */
const pageMax = 250

/**
 * Looks for what waits until a recipient connects; resolves when it is due: to false where the record did not answer, and the
 * caller is to ask again. One that is looked for already has a caller who does.
 */
export type Reconnect = (tenant: string, recipient: string) => Promise<boolean>

/** Returns the function to call when a recipient connects. */
export function createReconnect(options: ReconnectOptions): Reconnect {
  const { store, ledger, scheduler, clock } = options
  /** Recipients who are searched for: true where something may have been put back after the search. */
  const searching = new Map<string, boolean>()

  async function release(recorded: Notification): Promise<void> {
    const live = ledger.live(recorded.id)
    if (live !== undefined && live.status !== 'scheduled') return
    const before = live?.notification ?? recorded
    ledger.release(before)
    const now = clock.now()
    const event = { at: now, status: 'scheduled', reason: 'retry', detail: 'connected' } as const
    const move = advance(before, [event], { dueAt: now })
    try {
      if ((await ledger.commit({ moves: [move] })).applied) scheduler.place([move.after])
      else await scheduler.recover(before)
    } catch (error) {
      scheduler.place([{ ...before }]) // A copy: the scheduler still has the notification itself.
      throw error
    }
  }

  async function releaseAll(tenant: string, recipient: string): Promise<void> {
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page: Page<Notification> = await store.waiting(tenant, recipient, cursor ?? null, pageMax)
      await Promise.all(page.items.filter(awaitsConnection).map(release))
      cursor = page.nextCursor
    }
  }

  return async (tenant, recipient) => {
    const key = JSON.stringify([tenant, recipient])
    // One search per recipient at a time, for recipients that connect and disconnect repeatedly.
    const isBehindAnother = searching.has(key)
    searching.set(key, isBehindAnother)
    if (isBehindAnother) return true
    try {
      do {
        searching.set(key, false)
        await releaseAll(tenant, recipient)
      } while (searching.get(key) === true)
      return true
    } catch (error) {
      options.onError('look for what waits for a connection', error)
      return false
    } finally {
      searching.delete(key)
    }
  }
}

/**
 * Somebody has connected: what waited for that is due now, also where the agenda keeps it for its end soon to come.
 * What is on its way already comes by itself.
 */
import type { Agenda, Ledger } from '../doors.ts'
import { advance, awaitsConnection, type Notification } from '../model.ts'
import type { Clock, Page, Store } from '../ports.ts'

export interface ArrivalsOptions {
  readonly store: Pick<Store, 'waiting'>
  readonly ledger: Pick<Ledger, 'commit' | 'live' | 'release'>
  readonly agenda: Pick<Agenda, 'place' | 'recover'>
  readonly clock: Pick<Clock, 'now'>
  readonly onTrouble: (what: string, error: unknown) => void
}

/** Rows of one person that are in memory at once. */
const pageMax = 250

/** Answers what to call when a person connects. */
export function createArrivals(options: ArrivalsOptions): (tenant: string, recipient: string) => void {
  const { store, ledger, agenda, clock } = options
  const looking = new Set<string>()

  async function release(recorded: Notification): Promise<void> {
    const live = ledger.live(recorded.id)
    if (live !== undefined && live.status !== 'scheduled') return
    const before = live?.notification ?? recorded
    ledger.release(before)
    const now = clock.now()
    const event = { at: now, status: 'scheduled', reason: 'retry', detail: 'connected' } as const
    const move = advance(before, [event], { dueAt: now })
    try {
      if ((await ledger.commit({ moves: [move] })).applied) agenda.place([move.after])
      else await agenda.recover(before)
    } catch (error) {
      agenda.place([before])
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

  return (tenant, recipient) => {
    const key = JSON.stringify([tenant, recipient])
    // Who comes and goes is looked for once at a time.
    if (looking.has(key)) return
    looking.add(key)
    releaseAll(tenant, recipient)
      .catch((error) => options.onTrouble('look for what waits for a connection', error))
      .finally(() => looking.delete(key))
  }
}

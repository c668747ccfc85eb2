/**
 * Somebody has connected: what waited for that is due now. What is already on its way in memory comes by itself.
 */
import type { Agenda, Ledger } from '../doors.ts'
import { advance, awaitsConnection, type Notification } from '../model.ts'
import type { Clock, Store } from '../ports.ts'

export interface ArrivalsOptions {
  readonly store: Pick<Store, 'waiting'>
  readonly ledger: Pick<Ledger, 'commit' | 'live'>
  readonly agenda: Pick<Agenda, 'place'>
  readonly clock: Pick<Clock, 'now'>
  readonly onTrouble: (what: string, error: unknown) => void
}

/** Answers what to call when a person connects. */
export function createArrivals(options: ArrivalsOptions): (tenant: string, recipient: string) => void {
  const { store, ledger, agenda, clock } = options
  const looking = new Set<string>()

  async function release(notification: Notification): Promise<void> {
    if (ledger.live(notification.id) !== undefined) return
    const now = clock.now()
    const event = { at: now, status: 'scheduled', reason: 'retry', detail: 'connected' } as const
    const move = advance(notification, [event], { dueAt: now })
    if ((await ledger.commit({ moves: [move] })).applied) agenda.place([move.after])
  }

  return (tenant, recipient) => {
    const key = JSON.stringify([tenant, recipient])
    // Who comes and goes is looked for once at a time.
    if (looking.has(key)) return
    looking.add(key)
    store
      .waiting(tenant, recipient)
      .then((waiting) => Promise.all(waiting.filter(awaitsConnection).map(release)))
      .catch((error) => options.onTrouble('look for what waits for a connection', error))
      .finally(() => looking.delete(key))
  }
}

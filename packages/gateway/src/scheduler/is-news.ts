/** Tells claimed notifications that this process does not hold already. Pure. */
import { type Notification, revisionOf } from '../model.ts'
import type { Ledger } from '../stages.ts'

/** Tests if this process has no copy of a claimed notification, or waits with one that another process has replaced. */
export function isNews(claimed: Notification, ledger: Pick<Ledger, 'live'>): boolean {
  const live = ledger.live(claimed.id)
  if (live === undefined) return true
  return live.status !== 'sending' && revisionOf(live.notification) < revisionOf(claimed)
}

/** Follows the hints of other processes, and reads again what must hold without any. */
import type { ComplaintGuard } from '../admission/complaint-guard.ts'
import type { RecipientCache } from '../admission/recipient-cache.ts'
import type { KeptHolds } from '../ledger/operator-holds.ts'
import type { Members, Notifier } from '../ports/fleet.ts'
import type { Clock } from '../ports.ts'

export interface FollowedHints {
  readonly notifier: Pick<Notifier, 'listen'>
  readonly recipients: Pick<RecipientCache, 'forget'>
  readonly holds: Pick<KeptHolds, 'reread'>
  readonly complaints: Pick<ComplaintGuard, 'reread'>
  readonly members: Pick<Members, 'count'>
  readonly clock: Pick<Clock, 'now' | 'at'>
}

/** A process that makes no call knows the holds of others after this at the latest, ms. */
const rereadMs = 5_000

/** Returns the function that ends it. */
export function followHints(options: FollowedHints): () => void {
  const { notifier, recipients, holds, complaints, members, clock } = options
  const end = notifier.listen((hint) => {
    if (hint.topic === 'recipient') recipients.forget(hint.tenant, hint.recipient)
    else {
      void holds.reread()
      void complaints.reread()
    }
  })
  let disarm: () => void
  function arm(): void {
    disarm = clock.at(clock.now() + rereadMs, () => {
      if (members.count() > 1) void holds.reread()
      arm()
    })
  }
  arm()
  return () => {
    end()
    disarm()
  }
}

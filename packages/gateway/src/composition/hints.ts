/** Follows the hints of other processes, and reads again what must hold without any. */
import type { ComplaintGuard } from '../admission/complaint-guard.ts'
import type { RecipientCache } from '../admission/recipient-cache.ts'
import type { KeptHolds } from '../ledger/operator-holds.ts'
import type { Notifier } from '../ports/fleet.ts'
import type { Clock } from '../ports.ts'

export interface FollowedHints {
  readonly notifier: Pick<Notifier, 'listen'>
  readonly recipients: Pick<RecipientCache, 'forget'>
  readonly holds: Pick<KeptHolds, 'reread'>
  readonly complaints: Pick<ComplaintGuard, 'reread'>
  /** True where several processes share the record: this one may be alone now, and another one may have written last. */
  readonly isShared: boolean
  readonly clock: Pick<Clock, 'now' | 'at'>
}

/** A process that makes no call knows the holds of others after this at the latest, ms. */
const rereadMs = 5_000

/** Returns the function that ends it. */
export function followHints(options: FollowedHints): () => void {
  const { notifier, recipients, holds, complaints, isShared, clock } = options
  const end = notifier.listen((hint) => {
    if (hint.topic === 'recipient') recipients.forget(hint.tenant, hint.recipient)
    else {
      void holds.reread()
      void complaints.reread()
    }
  })
  let disarm = (): void => {}
  function arm(): void {
    disarm = clock.at(clock.now() + rereadMs, () => {
      void holds.reread()
      arm()
    })
  }
  if (isShared) arm()
  return () => {
    end()
    disarm()
  }
}

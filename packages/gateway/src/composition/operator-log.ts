/** Composes the lines of the log that follow the record and the time, and not a request. */

import { diskUse } from '../observability/disk-use.ts'
import { createNotificationLog } from '../observability/notification-log.ts'
import { createComplaintLog, createHoldLog, watch } from '../observability/operator-log.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

/** Returns the function that stops the lines. */
export function startOperatorLog(
  { config, clock, log, nameRecipient }: RuntimeContext,
  record: Storage,
): () => void {
  const { kind, path } = config.store
  const notifications = createNotificationLog({ log, nameRecipient })
  const unsubscribe = record.ledger.subscribe(notifications.note)
  record.holds.listen(createHoldLog({ log, aheadMs: () => clock.aheadMs?.() ?? 0 }))
  record.complaints.listen(createComplaintLog({ log, aheadMs: () => clock.aheadMs?.() ?? 0 }))
  const unwatch = watch({
    log,
    clock,
    deadLetters() {
      // Where the store has to be asked, the next look sees what is counted now.
      record.backlog.refreshDead?.().catch(() => undefined)
      return record.backlog.totals(clock.now()).dead
    },
    disk: () => (kind === 'postgres' || path === ':memory:' ? undefined : diskUse(path)),
  })
  return () => {
    unsubscribe()
    unwatch()
    notifications.close()
  }
}

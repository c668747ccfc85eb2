/**
 * Takeover by the one process that has the file: what was due when the process before was killed may have left. It was
 * marked in the transaction that opened the file (due.ts), and is claimed here as everything else that is due.
 */
import type { Notification } from '../../model.ts'
import type { Takeover } from '../../ports.ts'

export interface SqliteTakeoverOptions {
  readonly claimDue: (
    until: number,
    limit: number,
    without: readonly string[],
  ) => Promise<readonly Notification[]>
  readonly claimedUntil: () => number
  /** The instant by which everything was marked; undefined where the process before was not killed. */
  readonly suspectedAt: () => Promise<number | undefined>
}

export function createSqliteTakeover(options: SqliteTakeoverOptions): Takeover {
  const { claimDue, claimedUntil, suspectedAt } = options
  /** Asked once: nothing is marked after the opening. */
  let marked: { readonly until: number | undefined } | undefined

  return {
    async takeOver(_at, limit, without = []) {
      marked ??= { until: await suspectedAt() }
      const { until } = marked
      if (until === undefined || claimedUntil() >= until) return []
      const claimed = await claimDue(until, limit, [...without])
      return claimed.map((notification) => ({
        notification,
        mayHaveLeft: notification.suspects?.at(-1) === until,
      }))
    },
    takeBack: async () => [],
    heldOnRecord: async () => [],
    endRights: async () => {},
  }
}

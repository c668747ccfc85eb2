/** Lines of the log about the complaint guard: each when a category slows, pauses or goes on, and at a start. */
import type { ComplaintChange } from '../reports.ts'
import type { Log } from './log-events.ts'

export interface ComplaintLogOptions {
  readonly log: Pick<Log, 'warn' | 'info'>
  /** The lead of the wall clock over the gateway's own time, ms. */
  readonly aheadMs: () => number
}

export function createComplaintLog({ log, aheadMs }: ComplaintLogOptions): (change: ComplaintChange) => void {
  return ({ before, now: { stage, tenant, category, delivered, complained, bound, share, until } }) => {
    const fields = { tenant, category, delivered, complained, bound }
    if (stage === 'paused')
      log.warn({
        event: 'complaints.paused',
        ...fields,
        ...(until === undefined ? {} : { outUntil: new Date(until + aheadMs()) }),
      })
    else if (before === 'paused') log.info({ event: 'complaints.resumed', ...fields, share })
    else if (stage === 'slowed') log.warn({ event: 'complaints.slowed', ...fields, share })
    else log.info({ event: 'complaints.over', ...fields })
  }
}

/** Lines of the log about holds of operators: each when it is put in force, also at a start, and when it ends. */
import type { HoldRecord } from '../ports.ts'
import type { Log } from './log-events.ts'

export interface HoldLogOptions {
  readonly log: Pick<Log, 'warn' | 'info'>
  /** The lead of the wall clock over the gateway's own time, ms. */
  readonly aheadMs: () => number
}

export function createHoldLog({ log, aheadMs }: HoldLogOptions) {
  return ({ kind, hold }: { readonly kind: 'put' | 'ended'; readonly hold: HoldRecord }): void => {
    const { name, account, tenant, channel, category, reason, until } = hold
    const fields = account === undefined ? { name, tenant, channel, category } : { channel, account }
    const of = account === undefined ? 'notifications' : 'account'
    if (kind === 'ended') log.info({ event: `${of}.released`, ...fields })
    else log.warn({ event: `${of}.held`, ...fields, reason, outUntil: new Date(until + aheadMs()) })
  }
}

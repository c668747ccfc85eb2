/** The verdict on an account by the results that one process has heard. Pure. */
import type { HeardVerdict, SlotVerdict } from '../../ports/account-slots.ts'
import type { PooledAccount } from './account.ts'

/** Returns the verdict as it is told to all processes. */
export function verdictOf(judged: PooledAccount, now: number): Omit<SlotVerdict, 'account'> {
  const { openUntil = 0, coolDownMs = 0 } = judged.breaker.record() ?? {}
  const { learnedRate } = judged.report(now)
  const rate = judged.ratePerSecond
  return {
    openUntil,
    coolDownMs,
    concurrency: judged.concurrency < judged.options.concurrencyMax ? judged.concurrency : 0,
    share: learnedRate === null || rate === undefined ? 1 : Math.min(1, learnedRate / rate),
    risesFrom: Math.max(now, judged.blockedUntil),
  }
}

/** The verdict on a probe is heard so long after its result, or was lost, ms. */
export const verdictMsMax = 5_000

/** Returns that the breaker of an account is closed, and nothing else has changed. */
export const closedVerdict = (account: number, concurrency: number): HeardVerdict => ({
  account,
  concurrency,
  openUntil: 0,
  coolDownMs: 0,
  probedUntil: 0,
  blockedUntil: 0,
})

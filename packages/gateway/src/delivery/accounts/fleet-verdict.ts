/** The verdict on an account by the results that one process has heard, and how that process follows what it hears. */
import type { HeardVerdict, SlotVerdict } from '../../ports/account-slots.ts'
import type { SendResult } from '../../ports.ts'
import type { PooledAccount } from './account.ts'

interface HeardResult {
  readonly at: number
  readonly result: SendResult
  readonly tookMs: number
  readonly probe: boolean
  /** Calls under way, of all processes. */
  readonly busy: number
}

/** Judges the result of a call of any process; returns true where a verdict is to be told. */
export function followResult(
  judged: PooledAccount,
  { at, result, tookMs, probe, busy }: HeardResult,
): boolean {
  if (judged.options.windows.length === 0) {
    // By these it is known how often the account is called, where no rate says so.
    judged.take(at)
    judged.end(at)
  }
  judged.inFlight = busy
  const changes = judged.judge(at, result, tookMs, probe && judged.isBroken)
  judged.inFlight = 0
  return changes.length > 0
}

/** Brings the breaker and the concurrency to what the judge has told: the next judge goes on from there. */
export function followVerdict(
  judged: PooledAccount,
  now: number,
  { openUntil, coolDownMs, concurrency }: HeardVerdict,
): void {
  const { breaker, options } = judged
  if (concurrency !== undefined) judged.resize(concurrency || options.concurrencyMax)
  if (openUntil === 0 && judged.isBroken) breaker.end(now, true, false)
  if (openUntil > 0 && (!judged.isBroken || breaker.openUntil !== openUntil))
    breaker.restore({ openUntil, coolDownMs })
}

interface Verdict extends Omit<SlotVerdict, 'account'> {
  /** True if it says more than no verdict does: where the shared state has lost it, it is to be told again. */
  readonly isToTell: boolean
}

/** Returns the verdict as it is told to all processes. */
export function verdictOf(judged: PooledAccount, now: number): Verdict {
  const { openUntil = 0, coolDownMs = 0 } = judged.breaker.record() ?? {}
  const { learnedRate } = judged.report(now)
  const rate = judged.ratePerSecond
  const concurrency = judged.concurrency < judged.options.concurrencyMax ? judged.concurrency : 0
  const share = learnedRate === null || rate === undefined ? 1 : Math.min(1, learnedRate / rate)
  return {
    openUntil,
    coolDownMs,
    concurrency,
    share,
    risesFrom: Math.max(now, judged.blockedUntil),
    isToTell: openUntil > 0 || concurrency > 0 || share < 1,
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

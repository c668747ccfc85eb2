/** Details of a pool for operators: what its accounts carry and admit. Pure. */
import type { AccountDetails, AccountReport, PoolDetails, PoolLoad, PoolReport } from '../../stages.ts'

interface ReportingAccount {
  readonly ratePerSecond: number | undefined
  report(now: number): AccountReport
  details(now: number): AccountDetails
}

export function poolReport(
  { channel, provider }: Pick<PoolReport, 'channel'> & { readonly provider: { readonly name: string } },
  members: readonly ReportingAccount[],
  now: number,
): PoolReport {
  const accounts = members.map((account) => account.report(now))
  const rate = [...new Set(accounts.map((account) => account.rate))].join(' · ')
  return { channel, provider: provider.name, rate, accounts }
}

export function poolDetails(
  report: PoolReport,
  { admittedPerSecond }: Pick<PoolLoad, 'admittedPerSecond'>,
  members: readonly ReportingAccount[],
  retries: number,
  now: number,
): Omit<PoolDetails, 'waiting'> {
  const accounts = members.map((account) => account.details(now))
  const rates = members.map(({ ratePerSecond }, index) => {
    const { status, learnedRate } = accounts[index]!
    return status === 'healthy' ? (learnedRate ?? ratePerSecond) : 0
  })
  return {
    ...report,
    accounts,
    carries: rates.includes(undefined) ? null : rounded(sum(rates.map((rate) => rate ?? 0))),
    admits: admittedPerSecond === undefined ? null : rounded(admittedPerSecond),
    retryBudget: Math.max(0, Math.floor(retries)),
  }
}

/** Returns the share of the pool's rate that its accounts use after 429s; the weights are their configured rates. */
export function learnedRatio(weights: ReadonlyMap<ReportingAccount, number>, now: number): number {
  const total = sum(weights.values())
  if (total === 0) return 1
  let learned = 0
  for (const [account, weight] of weights) {
    const { learnedRate } = account.report(now)
    learned += learnedRate === null || account.ratePerSecond === undefined ? weight : learnedRate
  }
  return learned / total
}

export function sum(numbers: Iterable<number>): number {
  let total = 0
  for (const each of numbers) total += each
  return total
}

const rounded = (perSecond: number): number => Math.round(perSecond * 100) / 100

/** Details of a pool for operators: what its accounts carry and admit. Pure. */
import type { AccountDetails, PoolDetails, PoolLoad, PoolReport } from '../../stages.ts'

interface ReportingAccount {
  readonly ratePerSecond: number | undefined
  details(now: number): AccountDetails
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

export function sum(numbers: Iterable<number>): number {
  let total = 0
  for (const each of numbers) total += each
  return total
}

const rounded = (perSecond: number): number => Math.round(perSecond * 100) / 100

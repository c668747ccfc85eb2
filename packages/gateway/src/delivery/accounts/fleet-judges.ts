/**
 * The judges of accounts that several processes call. A pool has one judge, which holds the role of the pool. While processes
 * have different configurations it may not know an account of another one, or not that it has a long window, and then nobody
 * would judge it: so the judge tells every two seconds which accounts it judges, and each of the others has a role of its own.
 */
import type { Members, Peers } from '../../ports/fleet.ts'
import type { Clock } from '../../ports.ts'

/** An account as this process has it. */
interface JudgedAccount {
  readonly id: string
  /** True if its use is kept on record, by its judge. */
  readonly isLong: boolean
}

export interface FleetJudgesOptions {
  readonly members: Pick<Members, 'holds'>
  readonly peers: Pick<Peers, 'tell' | 'listen'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** The accounts of this process, by the name of their pool. */
  readonly accounts: ReadonlyMap<string, readonly JudgedAccount[]>
}

export interface FleetJudges {
  /** True while this process judges the account; without one, while it judges any of the pool. */
  judges(pool: string, account?: string): boolean
  close(): void
}

/** Told by the judge of a pool. */
interface Told {
  readonly pool: string
  readonly accounts: readonly string[]
  /** The accounts that have long windows. */
  readonly long: readonly string[]
}

/** Accounts of this process that the judge does not know, and when that was told. */
interface Left {
  readonly accounts: ReadonlySet<string>
  readonly toldAt: number
}

const tellMs = 2_000
/** After so long without a word nothing is known of the judge: it has died, or is of a version that does not tell. */
const silentMs = 5 * tellMs

export function createFleetJudges({ members, peers, clock, accounts }: FleetJudgesOptions): FleetJudges {
  const left = new Map<string, Left>()
  const judgesPool = (pool: string): boolean => members.holds(`judge:${pool}`)
  const judgesLeft = (pool: string, account: string): boolean => members.holds(`judge:${pool}/${account}`)

  const stopListening = peers.listen('judged', (message) => {
    const { pool, ...told } = message as Told
    const [known, long] = [new Set(told.accounts), new Set(told.long)]
    const unknown = (accounts.get(pool) ?? []).filter(({ id, isLong }) => !(isLong ? long : known).has(id))
    if (unknown.length === 0) left.delete(pool)
    else left.set(pool, { accounts: new Set(unknown.map(({ id }) => id)), toldAt: clock.now() })
  })

  function tell(): void {
    for (const [pool, own] of accounts) {
      if (!judgesPool(pool)) continue
      const long = own.filter(({ isLong }) => isLong)
      const told: Told = { pool, accounts: own.map(({ id }) => id), long: long.map(({ id }) => id) }
      peers.tell('judged', told)
    }
    stopTelling = clock.at(clock.now() + tellMs, tell)
  }
  let stopTelling = clock.at(clock.now() + tellMs, tell)

  return {
    judges(pool, account) {
      if (judgesPool(pool)) return true
      const ours = left.get(pool)
      if (ours === undefined || clock.now() - ours.toldAt > silentMs) return false
      if (account !== undefined) return ours.accounts.has(account) && judgesLeft(pool, account)
      return [...ours.accounts].some((each) => judgesLeft(pool, each))
    },
    close() {
      stopTelling()
      stopListening()
    },
  }
}

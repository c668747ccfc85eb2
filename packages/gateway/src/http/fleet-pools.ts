/**
 * Pools over all processes of a fleet, as operators look at them. An account and the results of its calls are common to
 * all processes; calls under way, and notifications that wait for an account, belong to one process each, and are summed
 * here.
 */
import type { Peers } from '../ports/fleet.ts'
import type { Clock } from '../ports.ts'
import type { PoolDetails, PoolsView } from '../stages.ts'

/** The part of a pool that belongs to one process. */
interface PoolShare extends Pick<PoolDetails, 'channel' | 'provider' | 'waiting'> {
  /** By account; those without calls under way are left out. */
  readonly inFlight: Readonly<Record<string, number>>
}

export interface FleetPoolsOptions {
  /** The pools of this process. */
  readonly own: PoolsView
  readonly peers: Pick<Peers, 'ask' | 'answer'>
  readonly clock: Pick<Clock, 'monotonic'>
}

/** Shares that were heard longer ago are not counted, ms. */
const keptMs = 5_000

export function createFleetPools({ own, peers, clock }: FleetPoolsOptions): PoolsView {
  let others: readonly PoolShare[] = []
  let heardAt = Number.NEGATIVE_INFINITY
  peers.answer('pools', () => own.details().map(shareOf))

  return {
    async refresh() {
      const { answers } = await peers.ask('pools', null)
      others = ([...answers.values()] as readonly (readonly PoolShare[])[]).flat()
      heardAt = clock.monotonic()
    },
    details() {
      const heard = clock.monotonic() - heardAt > keptMs ? [] : others
      return own.details().map((pool) => withShares(pool, heard))
    },
    past: own.past,
  }
}

function shareOf({ channel, provider, waiting, accounts }: PoolDetails): PoolShare {
  const busy = accounts.filter(({ inFlight }) => inFlight > 0)
  return {
    ...{ channel, provider, waiting },
    inFlight: Object.fromEntries(busy.map(({ id, inFlight }) => [id, inFlight])),
  }
}

function withShares(pool: PoolDetails, others: readonly PoolShare[]): PoolDetails {
  const { channel, provider, waiting, accounts } = pool
  const shares = others.filter((share) => share.channel === channel && share.provider === provider)
  const sum = (own: number, of: (share: PoolShare) => number): number =>
    shares.reduce((total, share) => total + of(share), own)
  return {
    ...pool,
    waiting: sum(waiting, (share) => share.waiting),
    accounts: accounts.map((account) => ({
      ...account,
      inFlight: sum(account.inFlight, ({ inFlight }) => inFlight[account.id] ?? 0),
    })),
  }
}

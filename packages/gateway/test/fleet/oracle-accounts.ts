/**
 * Holds calls against what the accounts of the provider answered: none to an account that a 429 blocked, and one probe at
 * a time to an account whose breaker must be open.
 */
import type { Change } from '../../src/ports.ts'
import type { Watched } from './oracle.ts'
import type { Call } from './sim-provider.ts'

interface Seen {
  /** The end of the block that a 429 asked for, true time. */
  blockedUntil: number
  /** The instant of the answer that blocked it. */
  blockedAt: number
  /** The process that knows of the block. */
  process: number
  /** True once a record of the account was written after the answer: from then on later processes know of it. */
  isOnRecord: boolean
  failedInARow: number
  readonly underWay: Set<Call>
}

export function watchAccounts({ world, settings, service, record }: Watched): void {
  const accounts = new Map<string, Seen>()

  function seen(account: string): Seen {
    let found = accounts.get(account)
    if (found === undefined) {
      found = {
        blockedUntil: 0,
        blockedAt: 0,
        process: 0,
        isOnRecord: false,
        failedInARow: 0,
        underWay: new Set(),
      }
      accounts.set(account, found)
    }
    return found
  }

  record.observers.add(({ method, args }) => {
    if (method !== 'commit') return
    for (const { account, blockedUntil } of (args[0] as Change).accounts ?? []) {
      const of = seen(account)
      if (blockedUntil !== undefined && blockedUntil >= of.blockedUntil) of.isOnRecord = true
    }
  })

  service.observers.add((call, what) => {
    const of = seen(call.account)
    if (what === 'written') {
      const isKnown = of.process === call.process || of.isOnRecord
      if (isKnown && call.handedAt > of.blockedAt && call.handedAt < of.blockedUntil)
        world.violate(
          '6 blocked',
          `${call.account} is blocked for ${of.blockedUntil - call.handedAt} ms more: ${call.message.id}`,
        )
      // Beyond the failures in a row that open the breaker there is one probe at a time.
      const others = [...of.underWay].filter(
        ({ process, handedAt }) => process === call.process && handedAt > brokenAt(of),
      )
      if (of.failedInARow > settings.breakerInARow && of.process === call.process && others.length > 0)
        world.violate('6 breaker', `${call.account} failed ${of.failedInARow} times and has two probes`)
      of.underWay.add(call)
      return
    }
    of.underWay.delete(call)
    note(of, call)
  })

  const broken = new WeakMap<Seen, number>()
  const brokenAt = (of: Seen): number => broken.get(of) ?? Number.POSITIVE_INFINITY

  function note(of: Seen, { process, outcome, retryAfterMs = 0 }: Call): void {
    if (of.process !== process) of.failedInARow = 0
    if (outcome === 'rate_limited') {
      const until = world.now() + retryAfterMs
      if (until > of.blockedUntil || of.process !== process) {
        of.blockedUntil = until
        of.blockedAt = world.now()
        of.isOnRecord = false
      }
    }
    of.process = process
    if (outcome === 'failed' || outcome === 'unknown') {
      of.failedInARow += 1
      if (of.failedInARow === settings.breakerInARow) broken.set(of, world.now())
    } else if (outcome === 'delivered' || outcome === 'rate_limited') {
      // An account that answers 429 works, and is blocked by its Retry-After alone.
      of.failedInARow = 0
      broken.delete(of)
    }
  }
}

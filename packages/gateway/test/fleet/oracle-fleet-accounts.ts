/**
 * Holds calls against what the accounts of the provider answered to any process: none by a process that a 429 told of a
 * block, none by any other one a moment later, and one probe at a time in the whole fleet while an account fails.
 */
import type { Watched } from './oracle.ts'
import type { Span } from './oracle-calm.ts'
import { second } from './settings.ts'
import type { Call } from './sim-provider.ts'

export interface WatchedFleetAccounts {
  born(process: number): void
  died(process: number): void
  paused(process: number, forMs: number): void
}

/** A process that goes on has told the others within this, ms: some questions may be refused or held up. */
const newsMsMax = 1_500

interface Block {
  readonly process: number
  readonly from: number
  readonly until: number
}

interface Seen {
  blocks: Block[]
  /** Failures behind the last success, of which every process has heard. */
  failures: number
  lastGood: number
  /** The instant from which every process knows that the account is out. */
  outFrom: number | undefined
  /** Processes that know it. */
  knowers: Set<number>
  readonly probes: Set<Call>
}

export function watchFleetAccounts(
  { world, settings, service }: Watched,
  engines: readonly Span[],
): WatchedFleetAccounts {
  const accounts = new Map<string, Seen>()
  const alive = new Set<number>()
  /** The instant until which a process may not have told what it knows. */
  const silentUntil = new Map<number, number>()
  let lastDeath = Number.NEGATIVE_INFINITY

  function seen(account: string): Seen {
    let found = accounts.get(account)
    if (found === undefined) {
      found = {
        blocks: [],
        failures: 0,
        lastGood: 0,
        outFrom: undefined,
        knowers: new Set(),
        probes: new Set(),
      }
      accounts.set(account, found)
    }
    return found
  }

  /** True if the shared state may have lost something of the span, or could not be told of it. */
  const isLossy = (from: number, to: number): boolean =>
    engines.some((span) => span.to >= from - world.start && span.from <= to - world.start)
  const isSilent = (process: number, since: number): boolean => (silentUntil.get(process) ?? 0) >= since

  function checkBlocks({ blocks }: Seen, { process, account, handedAt, message }: Call): void {
    for (const block of blocks) {
      if (handedAt <= block.from || handedAt >= block.until) continue
      const isOwn = block.process === process
      const isTold =
        alive.has(block.process) &&
        handedAt > block.from + newsMsMax &&
        !isSilent(block.process, block.from) &&
        !isSilent(process, block.from) &&
        !isLossy(block.from - second, handedAt)
      if (isOwn || isTold)
        world.violate(
          '6 blocked',
          `${account} is blocked for ${block.until - handedAt} ms more, said process ${block.process}: ${message.id} of process ${process}`,
        )
    }
  }

  function checkProbes(of: Seen, call: Call): void {
    if (of.outFrom === undefined || call.handedAt <= of.outFrom) return
    // The one that judges may be paused, and opens the breaker when it goes on.
    if ([...alive].some((process) => isSilent(process, call.handedAt))) return
    if (of.probes.size > 0 && ![...of.probes].some(({ process }) => isSilent(process, of.outFrom!)))
      world.violate('6 breaker', `${call.account} has failed ${of.failures} times and has two probes`)
    of.probes.add(call)
  }

  function note(of: Seen, { process, outcome, retryAfterMs = 0 }: Call): void {
    const now = world.now()
    if (outcome === 'delivered' || outcome === 'rate_limited') {
      of.failures = 0
      of.lastGood = now
      of.outFrom = undefined
      of.probes.clear()
    } else {
      // Results that are told side by side come in another order.
      const isBehind = now > of.lastGood + newsMsMax && !isLossy(now - second, now + newsMsMax)
      if (isBehind && !isSilent(process, now)) of.failures += 1
      if (of.failures === settings.breakerInARow) {
        // Where the one that judges was killed, the others wait for it that long.
        of.outFrom ??= Math.max(now, lastDeath + second) + newsMsMax
        of.knowers = new Set(alive)
      }
    }
    if (outcome === 'rate_limited')
      of.blocks = [
        ...of.blocks.filter(({ until }) => until > now),
        { process, from: now, until: now + retryAfterMs },
      ]
  }

  service.observers.add((call, what) => {
    const of = seen(call.account)
    if (what === 'written') {
      checkBlocks(of, call)
      checkProbes(of, call)
      return
    }
    of.probes.delete(call)
    note(of, call)
  })

  return {
    born: (process) => void alive.add(process),
    died(process) {
      alive.delete(process)
      lastDeath = world.now()
      for (const of of accounts.values()) {
        for (const probe of of.probes) if (probe.process === process) of.probes.delete(probe)
        of.knowers.delete(process)
        // Whoever knew it has gone.
        if (of.knowers.size > 0) continue
        of.outFrom = undefined
        of.failures = 0
      }
    },
    paused: (process, forMs) => void silentUntil.set(process, world.now() + forMs + newsMsMax),
  }
}

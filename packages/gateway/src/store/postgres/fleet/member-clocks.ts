/**
 * Compares the own time of this process with that of the others (docs/decisions/0045). A machine that was suspended falls
 * behind, since its monotonic clock stood still, and cannot tell that from a server whose clock was set. The others can: a
 * clock that was set is ahead of all of them alike.
 */

/** How far the server's clock is ahead of the own time of a process, ms, by one reading, and how wrong that may be. */
export interface ClockLead {
  readonly aheadMs: number
  readonly errorMs: number
}

/** The lead that another member has told; `told` grows with each of its readings. */
export interface MemberClock extends ClockLead {
  readonly id: string
  readonly told: number
}

/** Readings of another member that must show it: one from before the server's clock was set shows it, too. */
const tellingsMin = 3
/** The own times of processes may differ so far beside what their readings may be wrong, ms: windows are kept as much longer. */
const slackMs = 20
/** A process that has fallen behind by more was declared dead meanwhile; whoever is ahead by more is wrong, ms. */
const behindMaxMs = 20_000

/** The last telling of another member, and how many in a row have shown this process behind it. */
interface Seen {
  readonly told: number
  readonly times: number
}

export class MemberClocks {
  #seen: ReadonlyMap<string, Seen> = new Map()

  /** Returns by how much this process has fallen behind the others, ms; 0 where it has not. */
  behindMs(own: ClockLead, others: readonly MemberClock[]): number {
    const seen = new Map<string, Seen>()
    let behindMs = 0
    for (const { id, told, aheadMs, errorMs } of others) {
      const before = this.#seen.get(id) ?? { told, times: 0 }
      const byMs = own.aheadMs - aheadMs
      const isCertain = byMs > own.errorMs + errorMs + slackMs && byMs < behindMaxMs
      const times = isCertain && told !== before.told ? before.times + 1 : byMs > slackMs ? before.times : 0
      seen.set(id, { told, times })
      if (isCertain && times >= tellingsMin) behindMs = Math.max(behindMs, byMs)
    }
    this.#seen = behindMs > 0 ? new Map() : seen
    return behindMs
  }
}

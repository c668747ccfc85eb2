/**
 * The clock of the process: it starts at the wall clock and from there on follows the monotonic clock. It never
 * steps, so measurements on it (windows, leases, waits, deadlines) are true durations, whatever the wall clock does.
 * The offset of the wall clock is known besides, for times that are shown and read (decision record 0017). Processes that
 * share a record follow its server's clock in place of their own wall clocks (decision record 0045).
 */
import type { Clock, TimeLine } from '../ports.ts'

export interface SystemClock extends Clock {
  aheadMs(): number
  /** Continues from where the previous process stopped. To be called before anything is measured. */
  continueFrom(line: TimeLine): void
  /** The present position of the clock, for the next process; its offset is exact, also where it is below a step. */
  line(): TimeLine
  /**
   * Takes the clock of a server for the wall clock from now on. The first reading puts the clock there, so that it is to
   * come before anything is measured; later ones slew it by half a millisecond a second at most.
   */
  follow(reading: ServerReading): void
  /** Goes on later by so much, ms, without a slew: the clock had fallen behind those of other processes. */
  goOn(byMs: number): void
  /** Reads the clock of a server: `ask` resolves with what it shows, epoch ms. */
  readServer(ask: () => Promise<number>): Promise<ServerReading>
  /** Reports each step of the wall clock, in ms, within a second. */
  onStep(listener: (byMs: number) => void): () => void
}

/** The clock of a server as one question has read it. */
export interface ServerReading {
  /** The lead of the server's clock over the monotonic clock of the machine, ms. */
  readonly leadMs: number
  /** How wrong that may be, ms: half of the time that the answer took. */
  readonly errorMs: number
}

export interface SystemClockOptions {
  /** Wall clock. @defaultValue Date.now */
  readonly wall?: () => number
  /** Monotonic clock. @defaultValue performance.now */
  readonly monotonic?: () => number
}

/** Smallest offset that counts as a step of the wall clock, ms: slewed clocks and rounding both stay far below. */
const stepMs = 250
const lookMs = 1_000
/** A wall clock that gains so much between two looks was set, or the machine was suspended, ms. */
const suspendedMinMs = 1_000
/** Milliseconds by which a clock that follows a server is slewed in one millisecond: far less than a window is kept longer. */
const slewRate = 0.0005
/** Longer timers are set again on the way: setTimeout supports 24 days at most. */
const timerMsMax = 3_600_000

export function createSystemClock({
  wall = Date.now,
  monotonic: passed = () => performance.now(),
}: SystemClockOptions = {}): SystemClock {
  let originMs = wall() - passed()
  let aheadMs = 0
  const listeners = new Set<(byMs: number) => void>()
  let looking: NodeJS.Timeout | undefined
  /** The lead of the server's clock over the monotonic one; undefined where the clock follows none. */
  let serverLeadMs: number | undefined
  /** The lead of the machine's wall clock over it at the last look, and by how much it may have stood still in all. */
  let wallLeadSeenMs = 0
  let suspendedMs = 0
  /** The clock is slewed by so much, from this instant of the monotonic clock on. */
  let slewMs = 0
  let slewsFrom = 0

  const wallNow = (): number => (serverLeadMs === undefined ? wall() : Math.floor(serverLeadMs + passed()))

  function now(): number {
    const at = passed()
    return Math.floor(originMs + at + (slewMs === 0 ? 0 : slewedAt(at)))
  }

  function slewedAt(at: number): number {
    const most = slewRate * (at - slewsFrom)
    return Math.abs(slewMs) <= most ? slewMs : Math.sign(slewMs) * most
  }

  function endSlew(): void {
    const at = passed()
    originMs += slewedAt(at)
    slewMs = 0
    slewsFrom = at
  }

  function look(): number {
    const byMs = wallNow() - now() - aheadMs
    return Math.abs(byMs) < stepMs ? aheadMs : stepped(byMs)
  }

  function stepped(byMs: number): number {
    aheadMs += byMs
    for (const listener of listeners) listener(byMs)
    return aheadMs
  }

  return {
    now,
    monotonic() {
      const at = passed()
      if (serverLeadMs === undefined) return at
      // Another process may have acted while this machine was suspended: its rights have ended.
      const wallLead = wall() - at
      if (wallLead - wallLeadSeenMs >= suspendedMinMs) suspendedMs += wallLead - wallLeadSeenMs
      wallLeadSeenMs = wallLead
      return at + suspendedMs
    },
    async readServer(ask) {
      const sentAt = passed()
      const at = await ask()
      const errorMs = (passed() - sentAt) / 2
      return { leadMs: at - sentAt - errorMs, errorMs }
    },
    aheadMs: look,
    line: () => ({ at: now(), aheadMs: wallNow() - now() }),
    continueFrom(line) {
      const wallAt = wallNow()
      // The time of another process is read with a fraction; its offset is whole, as all instants on record.
      const at = Math.round(lineAt(wallAt, line))
      endSlew()
      originMs = at - passed()
      aheadMs = Math.abs(wallAt - at) < stepMs ? 0 : wallAt - at
    },
    follow({ leadMs, errorMs }) {
      const isFirst = serverLeadMs === undefined
      serverLeadMs = leadMs
      endSlew()
      if (isFirst) {
        wallLeadSeenMs = wall() - passed()
        originMs = leadMs
        aheadMs = 0
        return
      }
      const offMs = leadMs - originMs - look()
      if (Math.abs(offMs) > errorMs) slewMs = offMs - Math.sign(offMs) * errorMs
    },
    goOn(byMs) {
      endSlew()
      originMs += byMs
      const offMs = wallNow() - now()
      const aheadOfIt = Math.abs(offMs) < stepMs ? 0 : offMs
      if (aheadOfIt !== aheadMs) stepped(aheadOfIt - aheadMs)
    },
    onStep(listener) {
      listeners.add(listener)
      looking ??= setInterval(look, lookMs).unref()
      return () => {
        listeners.delete(listener)
        if (listeners.size > 0) return
        clearInterval(looking)
        looking = undefined
      }
    },
    at(instant, callback) {
      let timer: NodeJS.Timeout
      const arm = (): void => {
        const remaining = instant - now()
        // Node fires a timer up to 1 ms early by its own rounding; the check below makes that harmless.
        timer = setTimeout(tick, Math.min(Math.max(remaining, 0), timerMsMax))
      }
      const tick = (): void => {
        if (now() >= instant) callback()
        else arm()
      }
      arm()
      return () => clearTimeout(timer)
    },
    soon(callback) {
      setImmediate(callback)
    },
  }
}

/**
 * Finds where the clock continues when the wall clock reads this: at the recorded offset, as far as that is known. A
 * wall clock that was set back meanwhile would lead into the past; then the clock continues where it was last seen.
 */
export function lineAt(wallNow: number, { at, aheadMs }: TimeLine): number {
  return Math.max(wallNow - aheadMs, at)
}

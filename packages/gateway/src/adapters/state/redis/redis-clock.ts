/**
 * The clock of a Redis server beside the time of the fleet. Scripts take the server's clock, with the lead that was read at the
 * registration. A clock that has fallen behind since then is noticed by the scripts. One that has gained is noticed here:
 * for them a question at a later instant is one that took longer.
 */
import type { Clock } from '../../../ports.ts'
import type { Reply } from './redis-answers.ts'

export interface ClockReading {
  /** The lead of the fleet's time over the server's clock, ms, and how wrong it may be. */
  readonly offsetMs: number
  readonly errorMs: number
}

/** The clock of the server is read so often at a registration; the quickest answer counts. */
const readingsMin = 5
/**
 * An answer is no clock if it may be wrong by more than this, ms, half its round trip: two processes may then differ by as
 * much as windows are kept longer. It is asked again, at most so often.
 */
const errorMaxMs = 10
const readingsMax = 25
/** Both clocks may drift so far until they are compared again, ms. */
const driftMs = 10

/** Returns the most by which the clock of the server may be off from the reading, ms. */
export const slackOf = ({ errorMs }: ClockReading): number => driftMs + errorMs

/** Reads the clock of a server: `askTime` sends it TIME. */
export async function readClock(
  node: string,
  clock: Pick<Clock, 'now' | 'monotonic'>,
  askTime: () => Promise<Reply>,
): Promise<ClockReading> {
  let best = { offsetMs: 0, errorMs: Number.POSITIVE_INFINITY }
  const isRead = (readings: number): boolean =>
    readings >= (best.errorMs <= errorMaxMs ? readingsMin : readingsMax)
  for (let readings = 0; !isRead(readings); readings += 1) {
    const sentAt = clock.monotonic()
    const serverMs = instantOf(await askTime())
    const halfMs = (clock.monotonic() - sentAt) / 2
    if (halfMs < best.errorMs) best = { offsetMs: clock.now() - halfMs - serverMs, errorMs: halfMs }
  }
  if (best.errorMs <= errorMaxMs) return best
  throw new Error(
    `the clock of ${node} cannot be read: the quickest of ${readingsMax} answers took ${Math.round(2 * best.errorMs)} ms, of ${2 * errorMaxMs} ms at most`,
  )
}

/**
 * Compares the answer to a TIME after other questions with the present instant. `right`; `fast`: the clock is to be read
 * again; `ahead`: what was answered before it counts at instants that have not come.
 */
export function lookAtTime(time: Reply, reading: ClockReading, now: number): 'right' | 'fast' | 'ahead' {
  const aheadMs = instantOf(time) + reading.offsetMs - now
  if (aheadMs > slackOf(reading)) return 'ahead'
  return aheadMs > reading.errorMs + driftMs / 2 ? 'fast' : 'right'
}

function instantOf(time: Reply): number {
  const [seconds, micros] = time as readonly string[]
  return Number(seconds) * 1_000 + Number(micros) / 1_000
}

/**
 * Usage of an account as recorded on disk, so that no window of its rate starts empty after a restart. Calls are
 * written ahead: the record holds the calls made and a number of calls that may follow (`ahead`); no call is made
 * beyond it. A process that reads it after a kill counts all of these as made at that moment: never too few, and too
 * many by the calls still ahead. After a graceful shutdown nothing is ahead. Pure; account-persistence.ts writes.
 */
import type { Window } from '@sluice/limits'
import type { UseRecord } from '../../ports.ts'

/** Windows up to this length are waited out after a restart instead (`PooledAccount.usedUntil`), ms. */
export const shortMs = 2_000

/**
 * Maximum share of a window's places written ahead: `50000/h` is written every 375 calls, `1000/h` every 38, `40/10s`
 * every two.
 */
const aheadShare = 1 / 20
const aheadMax = 500
/** Share of the calls ahead at which more are requested: enough for the calls made during the write. */
const requestShare = 1 / 4

/** Slices per window: a call counts at the last instant of its slice, at most some 1 % of the window late. */
const slices = 100

interface Span {
  /** Length of the window with its margin. */
  readonly windowMs: number
  readonly sliceMs: number
}

/** Calls that count as one instant, that of the last of them. */
interface Slice {
  at: number
  count: number
}

export class WriteAheadUsage {
  /** Windows, narrowest first. */
  readonly #spans: readonly Span[]
  readonly #chunk: number
  /** Ended calls, oldest first. */
  #slices: Slice[] = []
  /** Calls since the start, including calls in flight. */
  #taken = 0
  #underWay = 0
  /** `#taken` may rise to `#covered` by the record on disk, to `#offered` by the one being written. */
  #covered = 0
  #offered = 0
  /** True while more is requested or being written. */
  #requested = false
  /** Calls that were to be ahead at all times when more was requested last. */
  #kept = 0
  /** True if a call was refused since the last write. */
  #waited = false

  /** @param windows the windows longer than `shortMs`, at least one */
  constructor(windows: readonly Window[], marginMs: number) {
    this.#spans = windows
      .map(({ windowMs }) => ({ windowMs: windowMs + marginMs, sliceMs: windowMs / slices }))
      .sort((a, b) => a.windowMs - b.windowMs)
    const least = Math.min(...windows.map(({ max }) => max))
    this.#chunk = Math.min(aheadMax, Math.max(1, Math.floor(least * aheadShare)))
  }

  /** Tests if the record covers one more call. */
  get admits(): boolean {
    if (this.#taken < this.#covered) return true
    this.#waited = true
    return false
  }

  /** Calls that the record on disk still covers. */
  get ahead(): number {
    return this.#covered - this.#taken
  }

  /**
   * Tests if more should be written ahead now; true once, until it is written.
   *
   * @param kept so many calls should be ahead at all times; the others of the record follow them
   */
  asks(kept = 0): boolean {
    const least = Math.max(kept, this.#chunk * requestShare)
    if (this.#requested || this.#covered - this.#taken > least) return false
    this.#requested = true
    this.#kept = kept
    return true
  }

  take(): void {
    this.#taken += 1
    this.#underWay += 1
  }

  undo(): void {
    this.#taken -= 1
    this.#underWay -= 1
  }

  /** Ends the call that counts at this instant. */
  end(at: number): void {
    this.#underWay -= 1
    const { sliceMs } = this.#spans[0]!
    const cell = Math.floor(at / sliceMs)
    let index = this.#slices.length - 1
    while (index >= 0 && Math.floor(this.#slices[index]!.at / sliceMs) > cell) index -= 1
    const slice = this.#slices[index]
    if (slice !== undefined && Math.floor(slice.at / sliceMs) === cell) {
      slice.count += 1
      slice.at = Math.max(slice.at, at)
    } else this.#slices.splice(index + 1, 0, { at, count: 1 })
  }

  /** Counts so many of the newest ended calls no more, which were not made; returns how many there were not. */
  uncount(calls: number): number {
    let left = calls
    for (let slice = this.#slices.at(-1); left > 0 && slice !== undefined; slice = this.#slices.at(-1)) {
      const count = Math.min(left, slice.count)
      slice.count -= count
      left -= count
      if (slice.count === 0) this.#slices.pop()
    }
    return left
  }

  /** Returns the record to write, including calls ahead if requested; `undefined` when nothing counts any more. */
  record(now: number): UseRecord | undefined {
    this.#slices = condensed(this.#slices, this.#spans, now)
    const wanted = this.#requested ? this.#taken + this.#kept + this.#chunk : 0
    this.#offered = Math.max(this.#covered, wanted)
    const ahead = this.#offered - this.#taken + this.#underWay
    if (ahead === 0 && this.#slices.length === 0) return undefined
    return {
      calls: this.#slices.map(({ at, count }) => [at, count]),
      ahead,
      windowMs: this.#spans.at(-1)!.windowMs,
    }
  }

  /** Called when the last `record` is on disk; true if a call was refused until then. */
  written(): boolean {
    this.#covered = this.#offered
    this.#requested = false
    const waited = this.#waited
    this.#waited = false
    return waited
  }

  /** Ends all calls: those still ahead are given up with the next record. */
  giveUp(): void {
    this.#covered = this.#taken
    this.#offered = this.#taken
    this.#requested = false
  }

  /** Restores the calls of an earlier process. */
  restore({ calls }: UseRecord): void {
    this.#slices = calls.map(([at, count]) => ({ at, count }))
  }
}

/** Merges neighbouring slices that are in one slice of the narrowest window that still counts them. */
function condensed(from: readonly Slice[], spans: readonly Span[], now: number): Slice[] {
  const kept: Slice[] = []
  for (const slice of from) {
    const span = spans.find(({ windowMs }) => slice.at + windowMs > now)
    if (span === undefined) continue
    const last = kept.at(-1)
    // A slice outside the narrow window stays separate: it may stand for a broad slice of the next one.
    const together = last !== undefined && last.at + span.windowMs > now
    if (together && Math.floor(last.at / span.sliceMs) === Math.floor(slice.at / span.sliceMs)) {
      last.at = slice.at
      last.count += slice.count
    } else kept.push(slice)
  }
  return kept
}

/**
 * Converts the usage that a process finds on record at start. Calls ahead may have been made until now, and so may
 * calls in the future, because the clock was set back meanwhile. `undefined` when nothing counts any more.
 */
export function useAsOf(now: number, record: UseRecord): UseRecord | undefined {
  const { calls, ahead, windowMs } = record
  const passed = calls.filter(([at]) => at < now && at + windowMs > now)
  const recent = calls.reduce((sum, [at, count]) => (at < now ? sum : sum + count), ahead)
  if (passed.length === 0 && recent === 0) return undefined
  if (passed.length === calls.length && recent === 0) return record
  return { calls: recent === 0 ? passed : [...passed, [now, recent]], ahead: 0, windowMs }
}

/**
 * How often an account was called, as the record has it, so that no window of its rate begins again at a restart. Calls
 * are written ahead: the record says what was called when, and that so many more may follow (`ahead`); none is made
 * that it does not cover. Whoever reads it after a kill counts all of these as made at that moment: never too few, and
 * too many by what was still ahead. After a clean end nothing is ahead. Pure; who writes is account-persistence.ts.
 */
import type { Window } from '@sluice/limits'
import type { UseRecord } from '../../ports.ts'

/** Windows up to this are waited for after a restart instead: `PooledAccount.usedUntil`. */
export const shortMs = 2_000

/**
 * Of the places of a window, those that are written ahead at most: with `50000/h` there is a write for every 375 calls,
 * with `1000/h` for every 38, with `40/10s` for every two.
 */
const aheadShare = 1 / 20
const aheadMax = 500
/** More is asked for when so much of it is left: enough for the calls made while that is being written. */
const askShare = 1 / 4

/** A window is kept in so many slices: what went in one counts at its last instant, some 1 % of the window late at most. */
const slices = 100

interface Span {
  /** Margin included. */
  readonly windowMs: number
  readonly sliceMs: number
}

/** Calls that count as one instant: that of the last of them. */
interface Slice {
  at: number
  count: number
}

export class WriteAheadUsage {
  /** Narrowest first. */
  readonly #spans: readonly Span[]
  readonly #chunk: number
  /** Calls that have ended, oldest first. */
  #slices: Slice[] = []
  /** Calls since the start, those under way among them. */
  #taken = 0
  #underWay = 0
  /** Up to here the record covers `#taken`; with what is being written, up to there. */
  #covered = 0
  #offered = 0
  /** Whether more is to be written ahead, or is being written. */
  #asked = false
  /** Whether a call was refused since. */
  #waited = false

  /** @param windows those of its rate that are longer than `shortMs`; at least one */
  constructor(windows: readonly Window[], marginMs: number) {
    this.#spans = windows
      .map(({ windowMs }) => ({ windowMs: windowMs + marginMs, sliceMs: windowMs / slices }))
      .sort((a, b) => a.windowMs - b.windowMs)
    const least = Math.min(...windows.map(({ max }) => max))
    this.#chunk = Math.min(aheadMax, Math.max(1, Math.floor(least * aheadShare)))
  }

  /** Whether the record covers one more call. */
  get admits(): boolean {
    if (this.#taken < this.#covered) return true
    this.#waited = true
    return false
  }

  /** Whether somebody who wants a call should now have more written ahead: says so once, until it is written. */
  asks(): boolean {
    if (this.#asked || this.#covered - this.#taken > this.#chunk * askShare) return false
    this.#asked = true
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

  /** The call that counts at this instant is over. */
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

  /** What is to be written now; where more was asked for, it is in it. `undefined`: nothing counts any more. */
  record(now: number): UseRecord | undefined {
    this.#slices = condensed(this.#slices, this.#spans, now)
    this.#offered = this.#asked ? Math.max(this.#covered, this.#taken + this.#chunk) : this.#covered
    const ahead = this.#offered - this.#taken + this.#underWay
    if (ahead === 0 && this.#slices.length === 0) return undefined
    return {
      calls: this.#slices.map(({ at, count }) => [at, count]),
      ahead,
      windowMs: this.#spans.at(-1)!.windowMs,
    }
  }

  /** What `record` gave last is on disk; whether somebody was refused a call until now. */
  written(): boolean {
    this.#covered = this.#offered
    this.#asked = false
    const waited = this.#waited
    this.#waited = false
    return waited
  }

  /** Nothing more is to be called: what is left ahead is given up with the next record. */
  giveUp(): void {
    this.#covered = this.#taken
    this.#offered = this.#taken
    this.#asked = false
  }

  /** What was called before this process. */
  restore({ calls }: UseRecord): void {
    this.#slices = calls.map(([at, count]) => ({ at, count }))
  }
}

/** Neighbours become one where both lie in one slice of the narrowest window that still counts them. */
function condensed(from: readonly Slice[], spans: readonly Span[], now: number): Slice[] {
  const kept: Slice[] = []
  for (const slice of from) {
    const span = spans.find(({ windowMs }) => slice.at + windowMs > now)
    if (span === undefined) continue
    const last = kept.at(-1)
    // What the narrow window counts no more stays apart: it may stand for a broad slice of the next one.
    const together = last !== undefined && last.at + span.windowMs > now
    if (together && Math.floor(last.at / span.sliceMs) === Math.floor(slice.at / span.sliceMs)) {
      last.at = slice.at
      last.count += slice.count
    } else kept.push(slice)
  }
  return kept
}

/**
 * What a process finds on record, as it begins: what was ahead may have been called until now, and so may what lies in
 * the future, because the clock was set back meanwhile. `undefined`: nothing of it counts any more.
 */
export function useAsOf(now: number, record: UseRecord): UseRecord | undefined {
  const { calls, ahead, windowMs } = record
  const passed = calls.filter(([at]) => at < now && at + windowMs > now)
  const recent = calls.reduce((sum, [at, count]) => (at < now ? sum : sum + count), ahead)
  if (passed.length === 0 && recent === 0) return undefined
  if (passed.length === calls.length && recent === 0) return record
  return { calls: recent === 0 ? passed : [...passed, [now, recent]], ahead: 0, windowMs }
}

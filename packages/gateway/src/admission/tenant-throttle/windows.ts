/** Several rolling windows over one sorted list of instants: when they admit the next, and how each of them stands. Pure. */
import { freeAt, type Window } from '@sluice/limits'
import { countUntil } from './sorted.ts'

/** One window as it stands. Instants are epoch milliseconds. */
export interface WindowUse {
  readonly of: 'tenant' | 'module'
  readonly window: string
  readonly windowMs: number
  readonly max: number
  /** What is in the window ending now, without what waits. */
  readonly used: number
  readonly remaining: number
  /** When the oldest entry leaves it; now where it is empty. */
  readonly resetAt: number
  /** When the next place is free, behind everybody who waits. */
  readonly freesAt: number
}

/** The earliest instant ≥ from that all the windows admit; each is kept `marginMs` longer than it is written. */
export function freeUnder(
  windows: readonly Window[],
  marginMs: number,
  log: readonly number[],
  from: number,
): number {
  let t = from
  for (let settled = 0, index = 0; settled < windows.length && t < Number.POSITIVE_INFINITY; index += 1) {
    const { max, windowMs } = windows[index % windows.length]!
    const next = freeAt(log, max, windowMs + marginMs, 1, t)
    settled = next === t ? settled + 1 : 1
    t = next
  }
  return t
}

/** `from` is an instant before which nothing is free. */
export function useOf(
  of: WindowUse['of'],
  given: {
    readonly windows: readonly Window[]
    readonly marginMs: number
    readonly log: readonly number[]
    readonly now: number
    readonly from: number
  },
): readonly WindowUse[] {
  const { windows, marginMs, log, now, from } = given
  return windows.map(({ text: window, windowMs, max }) => {
    const lengthMs = windowMs + marginMs
    const first = countUntil(log, now - lengthMs)
    const used = countUntil(log, now) - first
    return {
      of,
      window,
      windowMs,
      max,
      used,
      remaining: Math.max(0, max - used),
      resetAt: used === 0 ? now : log[first]! + lengthMs,
      freesAt: freeAt(log, max, lengthMs, 1, from),
    }
  })
}

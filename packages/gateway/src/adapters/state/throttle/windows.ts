/** Several rolling windows over one sorted list of times: the next free time, and the usage of each window. Pure. */
import { freeAt, type Window } from '@sluice/limits'
import type { WindowUse } from '../../../ports/tenants.ts'
import { countUntil } from './sorted.ts'

/** Returns the earliest time ≥ from that all windows admit; each window is extended by `marginMs`. */
export function freeUnder(
  windows: readonly Window[],
  marginMs: number,
  log: readonly number[],
  from: number,
): number {
  let t = from
  for (let agreed = 0, index = 0; agreed < windows.length && t < Number.POSITIVE_INFINITY; index += 1) {
    const { max, windowMs } = windows[index % windows.length]!
    const next = freeAt(log, max, windowMs + marginMs, 1, t)
    agreed = next === t ? agreed + 1 : 1
    t = next
  }
  return t
}

/** Reports the usage of windows; nothing is free before `from`. */
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

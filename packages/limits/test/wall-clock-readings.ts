/** Readings of wall clocks by Temporal, which shares no code with the library's time zones. */
import assert from 'node:assert/strict'
import { Temporal } from 'temporal-polyfill'

export const MINUTE_MS = 60_000
export const DAY_MS = 86_400_000

export function wallClock(instantMs: number, timeZone: string): Temporal.ZonedDateTime {
  return Temporal.Instant.fromEpochMilliseconds(instantMs).toZonedDateTimeISO(timeZone)
}

/**
 * Reads the minute of the day on a wall clock at instants that only grow. Temporal takes 20 µs for a reading, and there
 * are 600,000: it gives the offset after each change, and a whole reading of every 60th instant.
 */
export function createReader(timeZone: string): (instantMs: number) => number {
  let offsetMs = 0
  let changeMs = Number.NEGATIVE_INFINITY
  let readings = 0
  return (instantMs) => {
    if (instantMs >= changeMs) {
      const clock = wallClock(instantMs, timeZone)
      offsetMs = clock.offsetNanoseconds / 1e6
      changeMs = clock.getTimeZoneTransition('next')?.epochMilliseconds ?? Number.POSITIVE_INFINITY
      assert.ok(Number.isInteger(offsetMs / MINUTE_MS), 'a minute here is a minute there')
    }
    const minute = Math.floor((instantMs + offsetMs) / MINUTE_MS) % 1440
    readings += 1
    if (readings % 60 === 0) {
      const clock = wallClock(instantMs, timeZone)
      assert.equal(
        minute,
        clock.hour * 60 + clock.minute,
        `${new Date(instantMs).toISOString()} in ${timeZone}`,
      )
    }
    return minute
  }
}

/** The readings of the wall clock in each minute of six days. */
function readMinutes(timeZone: string, fromMs: number): Int16Array {
  const read = createReader(timeZone)
  return Int16Array.from({ length: (6 * DAY_MS) / MINUTE_MS }, (_, i) => read(fromMs + i * MINUTE_MS))
}

/**
 * Apart from the loop above on purpose. With both in one function, Node 24.21 under load gave back an object with
 * the numbers of another call in 13 of 600 processes; none of 200 did so with --no-maglev.
 */
export function readDays(timeZone: string, middleMs: number) {
  const fromMs = middleMs - 2 * DAY_MS
  return { timeZone, fromMs, middleMs, wallMinutes: readMinutes(timeZone, fromMs) }
}

export type Days = ReturnType<typeof readDays>

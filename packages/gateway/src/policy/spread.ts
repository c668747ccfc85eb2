/**
 * Spreads the notifications that wait for the end of quiet hours over the minutes after it. The offset depends
 * on the id alone: it is the same after a restart and in every process, so a notification that is decided anew
 * keeps it.
 */
import { uniform32 } from './hash.ts'

/**
 * Returns the stable offset of a notification, in ms, within [0, spreadMs).
 *
 * @param spreadMs - up to 2^32 ms, 49 days; 0 or less gives 0
 */
export function spreadOffset(id: string, spreadMs: number): number {
  return spreadMs > 0 ? Math.floor((uniform32(id) / 2 ** 32) * spreadMs) : 0
}

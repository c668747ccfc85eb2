/** Waits for some work, but no longer than until a deadline. */
import type { Clock } from '../../../ports.ts'

/**
 * Returns true when the work is over, and false at the instant of `clock.monotonic` when it is not. Rejects with the error of
 * the work, which goes on in any case.
 */
export function isOverBy(
  clock: Pick<Clock, 'monotonic'>,
  endsAt: number,
  work: Promise<unknown>,
): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(false), Math.max(0, endsAt - clock.monotonic()))
    work.then(() => resolve(true), reject).finally(() => clearTimeout(timer))
  })
}
